if(NOT POOLMARK_GRPC)
  set(_skip ON)
endif()
