#include "controller/ca/tokens.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "common/base/units.h"

namespace poolmark::controller {
namespace {

// Used and expired tokens are remembered for a day, so that a repeat is told what happened.
constexpr std::chrono::hours kRemember{24};

struct Record {
  std::string name;
  rpc::Role role = rpc::Role::kNone;
  Nanoseconds expires{};
};

Result<Record> ReadRecord(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1u << 16));
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, path));
  const Status bad = Internal(path, "it is no token record");
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() || !json.contains("role") ||
      !json["role"].is_string() || !json.contains("expires_ns") || !json["expires_ns"].is_number_integer()) {
    return bad;
  }
  Record record{json["name"].get<std::string>(),
                rpc::ParseRole(json["role"].get<std::string>()).value_or(rpc::Role::kNone),
                Nanoseconds(json["expires_ns"].get<int64_t>())};
  if (!IsName(record.name) || record.role == rpc::Role::kNone) return bad;
  return record;
}

Status Refused(std::string code, std::string message) {
  return ToStatus(Error{absl::StatusCode::kPermissionDenied, std::move(code), "token", std::move(message),
                        "ask for a new one: poolmark-controller token create"});
}

}  // namespace

std::string TokenStore::Path(const std::string& id, const char* state) const {
  return JoinPath(dir_, absl::StrCat("tokens/", id, ".", state));
}

Result<std::string> TokenStore::Create(const std::string& name, rpc::Role role, Nanoseconds life) {
  if (!IsName(name))
    return InvalidInput("name", absl::StrCat("'", name, "' is no name"), "use [a-z0-9][a-z0-9._-]{0,62}");
  if (role == rpc::Role::kNone || role == rpc::Role::kController) {
    return InvalidInput("role", "a token is for agent, viewer, automation, operator or admin");
  }
  if (life < std::chrono::seconds(1) || life > std::chrono::hours(24 * 30)) {
    return InvalidInput("--ttl", absl::StrCat(FormatDuration(life), " is not between 1s and 720h"));
  }
  POOLMARK_ASSIGN_OR_RETURN(auto files, ListDir(JoinPath(dir_, "tokens")));
  for (const std::string& file : files) {
    const std::string path = JoinPath(dir_, absl::StrCat("tokens/", file));
    auto record = ReadRecord(path);
    if (record.ok() && record->expires + kRemember < clock_.Wall()) std::remove(path.c_str());
  }
  const std::string secret = RandomHex(16);
  Json json = {{"name", name},
               {"role", rpc::RoleName(role)},
               {"created", IsoUtc(clock_.Wall())},
               {"expires_ns", (clock_.Wall() + life).count()}};
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 2));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(Path(Sha256Hex(secret), "json"), text + "\n", 0600));
  return secret;
}

Result<TokenGrant> TokenStore::Take(const std::string& secret, const std::string& name) {
  const std::string id = Sha256Hex(secret);
  if (FileExists(Path(id, "used"))) return Refused("token_used", "it was used already");
  if (FileExists(Path(id, "withdrawn")))
    return Refused("token_withdrawn", "the certificates of its name were revoked after it was made");
  if (!FileExists(Path(id, "json"))) return Refused("token_unknown", "it is not known here");
  POOLMARK_ASSIGN_OR_RETURN(Record record, ReadRecord(Path(id, "json")));
  if (clock_.Wall() >= record.expires)
    return Refused("token_expired", absl::StrCat("it expired at ", IsoUtc(record.expires)));
  if (record.name != name) return Refused("wrong_name", absl::StrCat("it is not for the name '", name, "'"));
  Status taken = RenameDurably(Path(id, "json"), Path(id, "used"));
  if (!taken.ok()) return Refused("token_used", "it was used already");
  return TokenGrant{record.name, record.role, id};
}

Status TokenStore::Withdraw(bool machine, const std::string& name) {
  static constexpr std::string_view kUnused = ".json";
  POOLMARK_ASSIGN_OR_RETURN(auto files, ListDir(JoinPath(dir_, "tokens")));
  for (const std::string& file : files) {
    if (!file.ends_with(kUnused)) continue;
    const std::string path = JoinPath(dir_, absl::StrCat("tokens/", file));
    auto record = ReadRecord(path);
    // What cannot be read opens nothing either.
    if (!record.ok() || record->name != name || (record->role == rpc::Role::kAgent) != machine) continue;
    POOLMARK_RETURN_IF_ERROR(
        RenameDurably(path, Path(file.substr(0, file.size() - kUnused.size()), "withdrawn")));
  }
  return absl::OkStatus();
}

void TokenStore::PutBack(const TokenGrant& grant) {
  Status back = RenameDurably(Path(grant.id, "used"), Path(grant.id, "json"));
  if (!back.ok()) Log(LogLevel::kWarning, "token.put_back_failed", {{"why", std::string(back.message())}});
}

}  // namespace poolmark::controller
