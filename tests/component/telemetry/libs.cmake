list(APPEND _libs poolmark_facts poolmark_prom poolmark_http)
if(NOT POOLMARK_GRPC)
  set(_skip ON)
endif()
