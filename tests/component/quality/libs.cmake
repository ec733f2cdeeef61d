list(APPEND _libs poolmark_quality nlohmann_json::nlohmann_json)
