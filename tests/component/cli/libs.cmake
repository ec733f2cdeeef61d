if(NOT TARGET poolmark_cli_remote)
  set(_skip ON)
else()
  list(APPEND _libs poolmark_ca poolmark_cli_remote)
  # The tests run the programs themselves.
  cmake_language(DEFER CALL add_dependencies component_cli poolmark poolmark-controller)
endif()
