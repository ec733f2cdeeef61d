#include "common/rpc/contexts.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/units.h"

namespace poolmark::rpc {
namespace {

constexpr int kSchemaVersion = 1;

}  // namespace

std::string ContextStore::DefaultDir() {
  auto env = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (std::string dir = env("POOLMARK_CONFIG_DIR"); !dir.empty()) return dir;
  if (std::string dir = env("XDG_CONFIG_HOME"); !dir.empty()) return JoinPath(dir, "poolmark");
  return JoinPath(env("HOME"), ".config/poolmark");
}

Result<ContextStore> ContextStore::Load(const std::string& dir) {
  ContextStore store;
  store.dir_ = dir;
  const std::string path = JoinPath(dir, "config.json");
  if (!FileExists(path)) return store;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1u << 20));
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, path));
  auto bad = [&](const std::string& what) {
    return InvalidInput(path, what, "correct it, or remove it and log in again");
  };
  if (!json.is_object()) return bad("it is no JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "schema_version") {
      if (value != kSchemaVersion) return bad(absl::StrCat("schema_version is not ", kSchemaVersion));
    } else if (key == "current") {
      if (!value.is_string()) return bad("'current' is no text");
      store.current_ = value.get<std::string>();
    } else if (key == "contexts") {
      if (!value.is_object()) return bad("'contexts' is no object");
      for (const auto& [name, entry] : value.items()) {
        if (!IsName(name) || !entry.is_object() || !entry.contains("controller") ||
            !entry["controller"].is_string()) {
          return bad(absl::StrCat("context '", name, "' is no name with a 'controller' address"));
        }
        std::string cluster = entry.contains("cluster") && entry["cluster"].is_string()
                                  ? entry["cluster"].get<std::string>()
                                  : "";
        store.contexts_[name] = {name, entry["controller"].get<std::string>(), cluster,
                                 JoinPath(dir, absl::StrCat("contexts/", name))};
      }
    } else {
      return bad(absl::StrCat("unknown key '", key, "'; known: schema_version, current, contexts"));
    }
  }
  return store;
}

std::vector<CliContext> ContextStore::All() const {
  std::vector<CliContext> all;
  for (const auto& [name, context] : contexts_) all.push_back(context);
  return all;
}

Result<CliContext> ContextStore::Find(const std::string& name) const {
  const std::string& wanted = name.empty() ? current_ : name;
  if (wanted.empty()) {
    return NotFound(
        "", "no controller is known here",
        "log in with 'poolmark login TOKEN' (a token comes from 'poolmark-controller token create')");
  }
  auto found = contexts_.find(wanted);
  if (found != contexts_.end()) return found->second;
  std::string known;
  for (const auto& [other, context] : contexts_) absl::StrAppend(&known, known.empty() ? "" : ", ", other);
  return NotFound("--context", absl::StrCat("'", wanted, "' is not known"),
                  absl::StrCat("known: ", known.empty() ? "none" : known));
}

Status ContextStore::Add(const std::string& name, const std::string& controller, const std::string& cluster,
                         const IdentityText& identity, const Clock& clock) {
  if (!IsName(name))
    return InvalidInput("--context", absl::StrCat("'", name, "' is no name"),
                        "use [a-z0-9][a-z0-9._-]{0,62}");
  POOLMARK_RETURN_IF_ERROR(MakeDirs(dir_, 0700));
  CliContext context{name, controller, cluster, JoinPath(dir_, absl::StrCat("contexts/", name))};
  POOLMARK_RETURN_IF_ERROR(InstallIdentity(context.identity_dir, identity, clock));
  contexts_[name] = context;
  current_ = name;
  return Save();
}

Status ContextStore::Use(const std::string& name) {
  POOLMARK_RETURN_IF_ERROR(Find(name).status());
  current_ = name;
  return Save();
}

Status ContextStore::Remove(const std::string& name) {
  POOLMARK_ASSIGN_OR_RETURN(CliContext context, Find(name));
  contexts_.erase(context.name);
  if (current_ == context.name) current_ = contexts_.empty() ? "" : contexts_.begin()->first;
  POOLMARK_RETURN_IF_ERROR(Save());
  return RemoveTree(context.identity_dir).status();
}

Status ContextStore::Save() const {
  Json json = {{"schema_version", kSchemaVersion}, {"current", current_}, {"contexts", Json::object()}};
  for (const auto& [name, context] : contexts_) {
    json["contexts"][name] = {{"controller", context.controller}, {"cluster", context.cluster}};
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 2));
  return AtomicWriteFile(JoinPath(dir_, "config.json"), text + "\n", 0600);
}

}  // namespace poolmark::rpc
