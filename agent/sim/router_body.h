// Bodies that the router reads and rewrites. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace poolmark::sim {

// For the prefill engine: one token, no stream, KV kept for another engine. Nothing when it is no object.
std::optional<std::string> PrefillBody(std::string_view body);
// For the decode engine: the request with the prefill reply's kv_transfer_params. Nothing when the reply
// has none.
std::optional<std::string> DecodeBody(std::string_view body, std::string_view prefill_reply);

}  // namespace poolmark::sim
