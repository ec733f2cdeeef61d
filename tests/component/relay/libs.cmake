list(APPEND _libs poolmark_relay)
