# Every header compiles alone, public ones with nothing but include/ in sight; and kernels cannot be
# compiled under fast-math.
# Run as cmake -DROOT=... -DCOMPILER=... -DKIND=public|internal -P headers.cmake.
cmake_minimum_required(VERSION 3.25)

set(faults 0)
function(compile_alone header flags result_variable error_variable)
  set(include -I ${ROOT}/include)
  if(header MATCHES "/src/")
    list(APPEND include -I ${ROOT}/src)
  endif()
  execute_process(
    COMMAND ${COMPILER} -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror
            ${flags} ${include} -include ${header} -x c++ /dev/null
    RESULT_VARIABLE result ERROR_VARIABLE error)
  set(${result_variable} ${result} PARENT_SCOPE)
  set(${error_variable} "${error}" PARENT_SCOPE)
endfunction()

if(KIND STREQUAL "public")
  file(GLOB headers ${ROOT}/include/tapehead/*.hpp)
else()
  file(GLOB_RECURSE headers ${ROOT}/src/*.hpp)
endif()
if(NOT headers)
  message(FATAL_ERROR "No headers under ${ROOT}")
endif()
foreach(header IN LISTS headers)
  compile_alone(${header} "" result error)
  if(NOT result EQUAL 0)
    math(EXPR faults "${faults} + 1")
    message(NOTICE "${header} does not compile alone:\n${error}")
  endif()
endforeach()

set(fast_math "")
if(KIND STREQUAL "internal")
  set(fast_math -ffast-math -Ofast -ffinite-math-only)
endif()
foreach(flag IN LISTS fast_math)
  compile_alone(${ROOT}/src/core/access.hpp ${flag} result error)
  if(result EQUAL 0 OR NOT error MATCHES "Tapehead needs NaN")
    math(EXPR faults "${faults} + 1")
    message(NOTICE "${flag} is not refused with a word about NaN:\n${error}")
  endif()
endforeach()

if(faults)
  message(FATAL_ERROR "${faults} faults")
endif()
