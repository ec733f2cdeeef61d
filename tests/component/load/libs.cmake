list(APPEND _libs poolmark_report poolmark_tokenizer)
list(APPEND _libs poolmark_load poolmark_http)
# Some tests run the program itself; the sanitizer lanes spare themselves the whole command line for it.
if(POOLMARK_SANITIZE STREQUAL "")
  cmake_language(DEFER CALL add_dependencies component_load poolmark poolmark-sim)
endif()
