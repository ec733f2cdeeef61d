if(NOT TARGET poolmark_agent)
  set(_skip ON)
endif()
list(APPEND _libs poolmark_ca)
