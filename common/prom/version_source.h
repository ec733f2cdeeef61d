// How a program tells its version, as its dialect's `version_from` says. Pure.
//
//   "GET /version"                    the answer's "version", or the answer itself where it is one word
//   "GET /props (build_info)"         another field of the answer
//   "INFO server (valkey_version, redis_version)"   the first of these fields of Redis' INFO
//   anything else                     what a person runs or looks up: "vllm-router --version", "image digest"
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::prom {

struct VersionSource {
  enum class Kind { kHttp, kInfo, kByHand };
  Kind kind = Kind::kByHand;
  std::string target;               // path, INFO's section, or the text for people
  std::vector<std::string> fields;  // in the order in which they are looked for
};
VersionSource ParseVersionFrom(std::string_view version_from);

// The version in an answer; "" where it has none, says that it does not know one ("b0-unknown", llama.cpp
// without its git), or is longer than any version.
std::string VersionIn(const VersionSource& source, std::string_view answer);

}  // namespace poolmark::prom
