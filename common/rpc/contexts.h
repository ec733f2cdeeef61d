// The clusters that a user of the CLI has logged in to: <dir>/config.json names them, and each has an
// identity directory <dir>/contexts/<name> (tls.h). <dir> is $POOLMARK_CONFIG_DIR, else
// $XDG_CONFIG_HOME/poolmark, else
// ~/.config/poolmark. Not thread-safe; two processes may write: the last one wins, files stay whole.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/tls.h"

namespace poolmark::rpc {

struct CliContext {
  std::string name;
  std::string controller;  // address
  std::string cluster;
  std::string identity_dir;
};

class ContextStore {
 public:
  // An absent file is an empty store; unknown keys and other versions are errors.
  static Result<ContextStore> Load(const std::string& dir);
  static std::string DefaultDir();

  std::vector<CliContext> All() const;
  const std::string& current() const { return current_; }
  // By name, or the current one when `name` is empty.
  Result<CliContext> Find(const std::string& name) const;
  // Installs the identity and makes the context the current one. `name`: [a-z0-9][a-z0-9._-]{0,62}.
  Status Add(const std::string& name, const std::string& controller, const std::string& cluster,
             const IdentityText& identity, const Clock& clock);
  Status Use(const std::string& name);
  // Forgets it, with its key.
  Status Remove(const std::string& name);

 private:
  Status Save() const;

  std::string dir_;
  std::string current_;
  std::map<std::string, CliContext> contexts_;
};

}  // namespace poolmark::rpc
