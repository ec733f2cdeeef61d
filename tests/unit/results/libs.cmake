list(APPEND _libs poolmark_load nlohmann_json::nlohmann_json)
