list(APPEND _libs poolmark_load poolmark_http)
