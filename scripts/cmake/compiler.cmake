# What every target of this project is compiled with. Nothing here reaches a parent project or a
# consumer.
set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang"
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
   OR (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  message(FATAL_ERROR "Tapehead needs GCC 12 or Clang 14, or a newer one; this is ${compiler}.")
endif()

add_library(tapehead_build_flags INTERFACE)
# Not fast-math: these only say that nobody reads errno or floating-point traps.
target_compile_options(tapehead_build_flags INTERFACE -fno-math-errno -fno-trapping-math)
# The places of calls that tapes name are paths inside the project, wherever it was built.
target_compile_options(tapehead_build_flags INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(tapehead_build_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow)
endif()
if(TAPEHEAD_WERROR)
  target_compile_options(tapehead_build_flags INTERFACE -Werror)
endif()

# A parent project may have no build type at all; kernels at -O0 would be 20 times slower.
target_compile_options(tapehead_build_flags INTERFACE
  $<$<OR:$<CONFIG:Release>,$<CONFIG:>>:-O$<IF:$<BOOL:${TAPEHEAD_SANITIZE}>,1,3>>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tapehead_build_flags INTERFACE
    -march=$<IF:$<BOOL:${TAPEHEAD_NATIVE}>,native,x86-64-v2>)
elseif(TAPEHEAD_NATIVE)
  target_compile_options(tapehead_build_flags INTERFACE -mcpu=native)
endif()

if(TAPEHEAD_SANITIZE)
  target_compile_options(tapehead_build_flags INTERFACE
    -fsanitize=${TAPEHEAD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_compile_definitions(tapehead_build_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(tapehead_build_flags INTERFACE -fsanitize=${TAPEHEAD_SANITIZE})
endif()
