# Builds and runs one consumer: cmake -DNAME=find_package|subdirectory|pkg_config -DSOURCE=...
# -DWORK=... -DPREFIX=... -DCOMPILER=... -DGENERATOR=... -P run.cmake
cmake_minimum_required(VERSION 3.25)
set(source ${SOURCE}/${NAME})
set(build ${WORK}/${NAME})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output
                  ECHO_OUTPUT_VARIABLE ECHO_ERROR_VARIABLE)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "Failed (${result}): ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

if(NAME STREQUAL "pkg_config")
  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  if(NOT PKG_CONFIG)
    message(NOTICE "skipped: there is no pkg-config here")
    return()
  endif()
  file(MAKE_DIRECTORY ${build})
  file(GLOB_RECURSE pc ${PREFIX}/*/tapehead.pc)
  cmake_path(GET pc PARENT_PATH directory)
  set(ENV{PKG_CONFIG_PATH} "${directory}:$ENV{PKG_CONFIG_PATH}")
  run(sh ${source}/build.sh ${COMPILER} ${SOURCE}/main.cpp ${build}/consumer)
else()
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${source} -B ${build} -DCMAKE_PREFIX_PATH=${PREFIX}
      -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)
  run(${CMAKE_COMMAND} --build ${build} --parallel ${processors})
endif()

run(${build}/consumer)
if(NOT output MATCHES "gradient .*4, 5, 6" OR NOT output MATCHES "products exact")
  message(FATAL_ERROR "The consumer printed something else.")
endif()
