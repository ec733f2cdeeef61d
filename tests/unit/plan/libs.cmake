if(NOT POOLMARK_GRPC)
  set(_skip ON)
endif()
list(APPEND _libs poolmark_load poolmark_workload poolmark_steps poolmark_stacks poolmark_spec)
