if(NOT TARGET poolmark_rpc)
  set(_skip ON)
endif()
list(APPEND _libs poolmark_ca)
