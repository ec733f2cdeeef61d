list(APPEND _sources ${CMAKE_CURRENT_SOURCE_DIR}/unit/results/example.cpp)
