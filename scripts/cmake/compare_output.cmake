# cmake -DPROGRAM=... -DEXPECTED=... -P compare_output.cmake: fails unless the program prints just that.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE found RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}; it printed:\n${found}")
endif()
if(NOT found STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} printed:\n${found}\nbut ${EXPECTED} says:\n${expected}")
endif()
