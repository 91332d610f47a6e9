# What every target of this project is compiled with. Nothing here reaches a parent project or a consumer.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Tapehead needs GCC 12 or newer; this is ${CMAKE_CXX_COMPILER_VERSION}.")
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "Tapehead needs Clang 14 or newer; this is ${CMAKE_CXX_COMPILER_VERSION}.")
endif()

add_library(tapehead_build_flags INTERFACE)
target_compile_options(tapehead_build_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow
  $<$<BOOL:${TAPEHEAD_WERROR}>:-Werror>
  $<$<CONFIG:Release>:-O3>
  # Not fast-math: these only say that nobody reads errno or floating-point traps.
  -fno-math-errno -fno-trapping-math)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tapehead_build_flags INTERFACE
    $<IF:$<BOOL:${TAPEHEAD_NATIVE}>,-march=native,-march=x86-64-v2>)
elseif(TAPEHEAD_NATIVE)
  target_compile_options(tapehead_build_flags INTERFACE -mcpu=native)
endif()
if(TAPEHEAD_SANITIZE)
  target_compile_options(tapehead_build_flags INTERFACE -fsanitize=${TAPEHEAD_SANITIZE} -fno-sanitize-recover=all
                                                        -fno-omit-frame-pointer -g)
  target_link_options(tapehead_build_flags INTERFACE -fsanitize=${TAPEHEAD_SANITIZE})
endif()
