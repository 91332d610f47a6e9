# What Tapehead stands on. Whatever is missing stops the configuration with one sentence that names
# the package.
include(${CMAKE_CURRENT_LIST_DIR}/openblas.cmake)

function(tapehead_missing what debian fedora arch homebrew)
  message(FATAL_ERROR "${what}; install ${debian} (Debian, Ubuntu), ${fedora} (Fedora), ${arch} "
                      "(Arch) or ${homebrew} (Homebrew) and configure again.")
endfunction()

function(tapehead_missing_blas what)
  tapehead_missing("${what}" libopenblas-dev openblas-devel openblas openblas)
endfunction()

if(NOT TARGET tapehead::openblas)
  tapehead_missing_blas("Tapehead needs OpenBLAS, and its library was not found")
endif()
find_path(TAPEHEAD_OPENBLAS_INCLUDE NAMES cblas.h HINTS ${TAPEHEAD_HOMEBREW}
          PATH_SUFFIXES openblas openblas-pthread openblas-openmp openblas-serial include)
mark_as_advanced(TAPEHEAD_OPENBLAS_INCLUDE)
if(NOT TAPEHEAD_OPENBLAS_INCLUDE)
  tapehead_missing_blas("Tapehead needs OpenBLAS, and its header cblas.h was not found")
endif()

# Compiled and run once for each pair of header and library.
set(pair "${TAPEHEAD_OPENBLAS_INCLUDE} ${TAPEHEAD_OPENBLAS_LIBRARY}")
if(NOT CMAKE_CROSSCOMPILING AND NOT TAPEHEAD_OPENBLAS_PROVEN STREQUAL pair)
  unset(TAPEHEAD_OPENBLAS_COMPILES CACHE)
  unset(TAPEHEAD_OPENBLAS_RUNS CACHE)
  try_run(TAPEHEAD_OPENBLAS_RUNS TAPEHEAD_OPENBLAS_COMPILES
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/blas_check.cpp
          CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${TAPEHEAD_OPENBLAS_INCLUDE}"
          LINK_LIBRARIES tapehead::openblas
          COMPILE_OUTPUT_VARIABLE compile_output RUN_OUTPUT_VARIABLE run_output)
  if(NOT TAPEHEAD_OPENBLAS_COMPILES)
    string(REGEX MATCH "[^\n]*(error:|undefined)[^\n]*" reason "${compile_output}")
    set(files "${TAPEHEAD_OPENBLAS_INCLUDE}/cblas.h and ${TAPEHEAD_OPENBLAS_LIBRARY}")
    tapehead_missing_blas("${files} do not work together as OpenBLAS (${reason})")
  elseif(NOT TAPEHEAD_OPENBLAS_RUNS EQUAL 0)
    if(NOT run_output)
      set(run_output "the check ended with ${TAPEHEAD_OPENBLAS_RUNS}")
    endif()
    tapehead_missing_blas("OpenBLAS failed its check: ${run_output} (${TAPEHEAD_OPENBLAS_LIBRARY})")
  endif()
  set(TAPEHEAD_OPENBLAS_PROVEN "${pair}" CACHE INTERNAL "Header and library with exact products")
  message(STATUS "${run_output}: products are exact (${TAPEHEAD_OPENBLAS_LIBRARY})")
endif()
add_library(tapehead_openblas INTERFACE)
target_include_directories(tapehead_openblas SYSTEM INTERFACE ${TAPEHEAD_OPENBLAS_INCLUDE})

find_package(Threads REQUIRED)
find_package(fmt 9 QUIET)
if(NOT fmt_FOUND)
  tapehead_missing("Tapehead needs fmt 9 or newer, which was not found"
                   libfmt-dev fmt-devel fmt fmt)
endif()
find_package(nlohmann_json 3.9 QUIET)
if(NOT nlohmann_json_FOUND)
  tapehead_missing("Tapehead needs nlohmann-json 3.9 or newer, which was not found"
                   nlohmann-json3-dev json-devel nlohmann-json nlohmann-json)
endif()
if(TAPEHEAD_CLI)
  find_package(CLI11 2 QUIET)
  if(NOT CLI11_FOUND)
    tapehead_missing("The program tapehead needs CLI11 2 or newer, which was not found"
                     libcli11-dev cli11-devel cli11 cli11)
  endif()
endif()
if(TAPEHEAD_TESTS)
  find_package(Catch2 QUIET)
  if(NOT Catch2_FOUND OR Catch2_VERSION VERSION_LESS 2.13)
    tapehead_missing("The tests need Catch2 2.13 or newer, which was not found"
                     catch2 catch-devel catch2 catch2)
  endif()
endif()
if(TAPEHEAD_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    tapehead_missing("The benchmarks need Google Benchmark, which was not found"
                     libbenchmark-dev google-benchmark-devel benchmark google-benchmark)
  endif()
endif()
