if(NOT POOLMARK_GRPC)
  list(FILTER _sources EXCLUDE REGEX "facts_test\\.cpp$")
endif()
