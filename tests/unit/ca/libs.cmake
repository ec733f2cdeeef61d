if(NOT TARGET poolmark_ca)
  set(_skip ON)
endif()
