#include <tapehead/system.hpp>

namespace tapehead {

const char* version() { return TAPEHEAD_VERSION; }

}  // namespace tapehead
