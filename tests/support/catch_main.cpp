// The one file that compiles Catch2's main: it takes as long as the rest of the tests together.
#ifdef TAPEHEAD_CATCH2_V2
#define CATCH_CONFIG_MAIN
#endif
#include "support/catch.hpp"
