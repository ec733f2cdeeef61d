list(APPEND _libs poolmark_facts)
if(NOT POOLMARK_GRPC)
  set(_skip ON)
endif()
