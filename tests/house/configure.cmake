# Whatever a build needs and does not find stops the configuration with one sentence that names the
# package; a BLAS that computes wrongly is found out.
# Run as cmake -DROOT=... -DCOMPILER=... -DWORK=... -P configure.cmake.
cmake_minimum_required(VERSION 3.25)
set(faults 0)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

# Configures with the options that follow and no earlier ones; "" as the sentence means that it has to
# succeed.
function(configure sentence)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${ROOT} -B ${WORK}/build -DCMAKE_CXX_COMPILER=${COMPILER}
            -UTAPEHEAD_* -UCMAKE_DISABLE_FIND_PACKAGE_* -UCMAKE_FIND_ROOT_PATH* ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
  string(REGEX REPLACE "[ \n]+" " " said "${error}")
  string(REGEX MATCHALL "CMake Error" errors "${error}")
  list(LENGTH errors count)
  if(sentence STREQUAL "")
    if(result EQUAL 0)
      return()
    endif()
  elseif(NOT result EQUAL 0 AND count EQUAL 1 AND said MATCHES "${sentence}")
    return()
  endif()
  list(JOIN ARGN " " options)
  message(NOTICE "With ${options}, wanted: ${sentence}\nGot (${result}): ${output}${error}")
  math(EXPR faults "${faults} + 1")
  set(faults ${faults} PARENT_SCOPE)
endfunction()

foreach(kind narrow wide)
  set(define "")
  if(kind STREQUAL wide)
    set(define -DWIDE)
  endif()
  execute_process(COMMAND ${COMPILER} -shared -fPIC ${define} ${ROOT}/tests/house/false_blas.cpp
                          -o ${WORK}/lib${kind}.so COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(WRITE ${WORK}/cblas.h "void cblas_sgemm();\n")

set(install "install libopenblas-dev \\(Debian, Ubuntu\\), openblas-devel \\(Fedora\\), openblas \\(Arch\\)")
configure("OpenBLAS, and its library was not found. ${install}"
          -DCMAKE_FIND_ROOT_PATH=/nowhere -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY)
configure("OpenBLAS, and its header cblas.h was not found. ${install}"
          -DCMAKE_FIND_ROOT_PATH=/nowhere -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY)
configure("do not work together as OpenBLAS.*${install}" -DTAPEHEAD_OPENBLAS_INCLUDE=${WORK})
configure("sgemm gives wrong products.*${install}"
          -DTAPEHEAD_OPENBLAS_LIBRARY=${WORK}/libnarrow.so)
configure("32-bit integers and the library with 64-bit.*${install}"
          -DTAPEHEAD_OPENBLAS_LIBRARY=${WORK}/libwide.so)

configure("Tapehead needs fmt 9 or newer, which was not found. install libfmt-dev"
          -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
configure("Tapehead needs nlohmann-json 3.9 or newer, which was not found. install nlohmann-json3-dev"
          -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
configure("The program tapehead needs CLI11 2 or newer, which was not found. install libcli11-dev"
          -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON)
configure("The tests need Catch2 2.13 or newer, which was not found. install catch2"
          -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON)
configure("The benchmarks need Google Benchmark, which was not found. install libbenchmark-dev"
          -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON -DTAPEHEAD_BENCH=ON)
configure("" -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON
          -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_CLI=OFF)

if(faults)
  message(FATAL_ERROR "${faults} faults")
endif()
