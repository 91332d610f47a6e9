// Catch2 2.13 and 3.x under one include.
#pragma once

#ifdef TAPEHEAD_CATCH2_V2
#include <catch2/catch.hpp>  // brings Approx into the global namespace
inline auto ContainsSubstring(const std::string& part) { return Catch::Matchers::Contains(part); }
#else
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#endif
