if(TARGET poolmark_spec)
  list(APPEND _libs poolmark_spec)
endif()
