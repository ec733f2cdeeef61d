list(APPEND _libs poolmark_process poolmark_base)
