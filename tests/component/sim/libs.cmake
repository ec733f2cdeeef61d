list(APPEND _libs poolmark_sim poolmark_http poolmark_prom)
# The tests run the program itself.
cmake_language(DEFER CALL add_dependencies component_sim poolmark-sim)
