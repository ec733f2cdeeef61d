list(APPEND _libs poolmark_prom)
