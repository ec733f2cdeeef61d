list(APPEND _libs poolmark_facts poolmark_prom)
if(NOT POOLMARK_GRPC)
  list(FILTER _sources EXCLUDE REGEX "recorder_test\\.cpp$")
endif()
