list(APPEND _libs poolmark_facts)
if(NOT POOLMARK_GRPC)
  list(FILTER _sources INCLUDE REGEX "parsers_test\\.cpp$")
endif()
