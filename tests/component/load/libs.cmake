list(APPEND _libs poolmark_load poolmark_http)
#Some tests run the program itself.
    cmake_language(DEFER CALL add_dependencies component_load poolmark)
