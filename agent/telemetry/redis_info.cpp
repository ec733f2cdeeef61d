#include "agent/telemetry/redis_info.h"

#include "agent/facts/text.h"

namespace poolmark::agent {

Result<RedisInfo> ParseRedisInfo(std::string_view text) {
  RedisInfo info;
  for (std::string_view line : Lines(text)) {
    if (line.front() == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) continue;
    if (info.fields.size() >= 10'000) return InvalidInput("redis", "INFO has more than 10000 fields");
    info.fields[std::string(line.substr(0, colon))] = std::string(Trim(line.substr(colon + 1)));
  }
  for (const auto& [name, value] : info.fields) {
    if (name.size() < 3 || name.rfind("db", 0) != 0 || !ToUint(name.substr(2)) ||
        value.rfind("keys=", 0) != 0)
      continue;
    info.keys += ToUint(value.substr(5, value.find(',') - 5)).value_or(0);
  }
  const auto field = [&](const char* name) {
    const auto found = info.fields.find(name);
    return found == info.fields.end() ? std::string() : found->second;
  };
  info.run_id = field("run_id");
  info.version = field("valkey_version").empty() ? field("redis_version") : field("valkey_version");
  if (info.version.empty() || info.run_id.empty())
    return InvalidInput("redis", "this is no answer to INFO (no version or run_id)");
  return info;
}

Reading ReadingOf(const RedisInfo& info, const prom::Dialect& dialect) {
  Reading reading;
  PointBuilder points(dialect);
  for (const auto& [name, text] : info.fields) {
    if (!dialect.Keeps(name)) continue;
    if (const auto value = ToDouble(text)) {
      points.Add(name, {}, *value);
    } else {
      points.AddMissing(name, {}, "INFO gives no number");
    }
  }
  // a server without keys lists no database at all
  points.Add("keys", {}, static_cast<double>(info.keys));
  reading.points = points.Take();
  reading.identity.emplace_back("run_id", info.run_id);
  return reading;
}

Result<std::pair<std::string, uint16_t>> ParseRedisAddress(std::string_view url) {
  std::string text(url);
  if (text.rfind("redis://", 0) == 0) text = text.substr(8);
  while (!text.empty() && text.back() == '/') text.pop_back();
  const size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos;
  const uint64_t port = has_port ? ToUint(std::string_view(text).substr(colon + 1)).value_or(0) : 0;
  std::string host = text.substr(0, has_port ? colon : 0);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (port == 0 || port > 65535 || host.empty()) {
    return InvalidInput(std::string(url), "no Redis address", "write redis://host:port");
  }
  return std::pair(host, static_cast<uint16_t>(port));
}

}  // namespace poolmark::agent
