list(APPEND _libs nlohmann_json::nlohmann_json)
