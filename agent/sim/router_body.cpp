#include "agent/sim/router_body.h"

#include <nlohmann/json.hpp>

#include "common/base/json.h"

namespace poolmark::sim {

std::optional<std::string> PrefillBody(std::string_view body) {
  auto json = ParseJson(body);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  (*json)["stream"] = false;
  json->erase("stream_options");
  (*json)["max_tokens"] = 1;
  if (json->contains("max_completion_tokens")) (*json)["max_completion_tokens"] = 1;
  (*json)["kv_transfer_params"] = {{"do_remote_decode", true},    {"do_remote_prefill", false},
                                   {"remote_engine_id", nullptr}, {"remote_block_ids", nullptr},
                                   {"remote_host", nullptr},      {"remote_port", nullptr}};
  auto text = DumpJson(*json);
  return text.ok() ? std::optional(*text) : std::nullopt;
}

std::optional<std::string> DecodeBody(std::string_view body, std::string_view prefill_reply) {
  auto json = ParseJson(body);
  auto reply = ParseJson(prefill_reply);
  if (!json.ok() || !json->is_object() || !reply.ok() || !reply->is_object()) return std::nullopt;
  if (!reply->contains("kv_transfer_params") || !(*reply)["kv_transfer_params"].is_object())
    return std::nullopt;
  (*json)["kv_transfer_params"] = (*reply)["kv_transfer_params"];
  auto text = DumpJson(*json);
  return text.ok() ? std::optional(*text) : std::nullopt;
}

}  // namespace poolmark::sim
