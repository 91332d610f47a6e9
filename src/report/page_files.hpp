// page.css and page.js as text; page_files.cpp is made of them when the build is configured.
#pragma once

#include <string_view>

namespace tapehead::report {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace tapehead::report
