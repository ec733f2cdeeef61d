// What ${…} can name in a stack file, told from the file alone. The plan fills the texts
// (controller/stacks/fill.h); the rules here are the same, without machines and numbers.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/spec/stack_parts.h"

namespace poolmark::spec {
namespace {

// Of the instance or the job. A parameter may be called `gpus`: it is the number that the plan knows as well.
const std::vector<std::string> kGiven = {"index", "count", "job",     "stack",   "run",
                                         "work",  "gpus",  "address", "machine", "gpu_indexes"};

class References {
 public:
  References(const StackSpec& stack, const ProcessTemplate& own) : stack_(stack), own_(own) {}

  // What is wrong with the inside of a ${…}; "" where it means something.
  std::string Wrong(const std::string& name) const {
    if (std::count(kGiven.begin(), kGiven.end(), name) != 0 || stack_.params.contains(name)) return "";
    const std::vector<std::string> parts = absl::StrSplit(name, '.');
    if (parts[0] == "kv" && parts.size() == 2) return KvField(parts[1]);
    if (parts.size() == 2 && (parts[0] == "bytes" || parts[0] == "gib" || parts[0] == "mib"))
      return Tier(parts[1]);
    if (parts.size() == 2 && parts[0] == "dir") {
      return parts[1] == own_.disk && !own_.disk.empty()
                 ? ""
                 : absl::StrCat("process '", own_.name, "' has no directory '", parts[1], "'");
    }
    if (parts[0] == "port" || parts[0] == "url" || parts[0] == "hostport") return Field(own_, parts);
    const size_t skip = parts[0] == "list" ? 1 : 0;
    if (parts.size() < skip + 2) return "means nothing here";
    const auto others = Named(parts[skip]);
    if (others.empty()) return absl::StrCat("no process or role is called '", parts[skip], "'");
    for (const ProcessTemplate* other : others) {
      const std::string wrong = Field(*other, {parts.begin() + static_cast<long>(skip) + 1, parts.end()});
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  // A template, or all of a role when no template has that name.
  std::vector<const ProcessTemplate*> Named(const std::string& name) const {
    std::vector<const ProcessTemplate*> found;
    for (const ProcessTemplate& process : stack_.processes) {
      if (process.name == name) found.push_back(&process);
    }
    if (!found.empty()) return found;
    for (const ProcessTemplate& process : stack_.processes) {
      if (RoleName(process.role) == name) found.push_back(&process);
    }
    return found;
  }

  std::string Near(const std::string& name) const {
    std::vector<std::string> known = kGiven;
    for (const auto& [param, value] : stack_.params) known.push_back(param);
    for (const char* field : {"block_tokens", "chunk_tokens", "hash_seed", "dtype"})
      known.push_back(absl::StrCat("kv.", field));
    for (const ProcessTemplate& process : stack_.processes) {
      for (const std::string& port : process.ports) {
        for (const char* kind : {"port.", "url.", "hostport."}) {
          if (&process == &own_) known.push_back(absl::StrCat(kind, port));
          known.push_back(absl::StrCat(process.name, ".", kind, port));
          known.push_back(absl::StrCat("list.", process.name, ".", kind, port));
        }
      }
    }
    if (!own_.disk.empty()) known.push_back(absl::StrCat("dir.", own_.disk));
    return Nearest(name, known);
  }

 private:
  std::string KvField(const std::string& field) const {
    if (field == "block_tokens" || field == "hash_seed" || field == "dtype") return "";
    if (field == "chunk_tokens" && stack_.kv.chunk_tokens) return "";
    return absl::StrCat("'kv.", field, "' is not set in this stack");
  }
  std::string Tier(const std::string& source) const {
    const bool owns = std::any_of(stack_.tiers.begin(), stack_.tiers.end(), [&](const TierSpec& tier) {
      return tier.owner == own_.name && TierSourceName(tier.source) == source;
    });
    return owns ? "" : absl::StrCat("process '", own_.name, "' owns no tier of source ", source);
  }
  static std::string Field(const ProcessTemplate& process, const std::vector<std::string>& parts) {
    if (parts.size() == 1 && (parts[0] == "address" || parts[0] == "machine")) return "";
    if (parts.size() == 2 && (parts[0] == "port" || parts[0] == "hostport" || parts[0] == "url")) {
      if (std::count(process.ports.begin(), process.ports.end(), parts[1]) != 0) return "";
      return absl::StrCat("process '", process.name, "' has no port '", parts[1], "'");
    }
    return absl::StrCat("'", absl::StrJoin(parts, "."), "' is no field of a process");
  }

  const StackSpec& stack_;
  const ProcessTemplate& own_;
};

// Each mistake of a text once, however often it stands there.
void CheckText(const Value& place, const std::string& text, const References& references) {
  std::set<std::string> told;
  for (size_t open = text.find("${"); open != text.npos; open = text.find("${", open + 2)) {
    const size_t close = text.find('}', open);
    if (close == text.npos) {
      place.Fail("has a ${ without its }");
      return;
    }
    const std::string name = text.substr(open + 2, close - open - 2);
    const std::string wrong = references.Wrong(name);
    if (wrong.empty() || !told.insert(name).second) continue;
    const std::string near = references.Near(name);
    place.Fail(absl::StrCat("${", name, "} cannot be filled: ", wrong),
               near.empty() ? "docs/stacks.md lists what can be named"
                            : absl::StrCat("did you mean ${", near, "}?"));
  }
}

}  // namespace

void CheckReferences(const StackSpec& stack, const std::vector<ProcessParts>& processes) {
  for (size_t i = 0; i < processes.size(); ++i) {
    const References own(stack, stack.processes[i]);
    for (const FilledText& text : processes[i].texts) {
      if (text.each.empty()) {
        CheckText(text.value, text.text, own);
        continue;
      }
      const auto others = own.Named(text.each);
      if (others.empty())
        text.value.Fail(absl::StrCat("each: no process or role is called '", text.each, "'"));
      // A mistake is one, whichever instance it is of.
      for (const ProcessTemplate* other : others) {
        const size_t before = text.value.errors()->size();
        CheckText(text.value, text.text, References(stack, *other));
        if (text.value.errors()->size() > before) break;
      }
    }
    const std::string& param = stack.processes[i].gpus_param;
    if (!param.empty() && processes[i].gpus && !stack.params.contains(param))
      processes[i].gpus->Fail(absl::StrCat("'", param, "' is no parameter of the stack"),
                              "name one of its params");
  }
}

void CheckParamName(const Value& value, const std::string& name) {
  if (name.find_first_of(". {}$") != name.npos || name.empty())
    value.Fail(absl::StrCat("'", name, "' is no name of a parameter"), "letters, digits, '_' and '-'");
  if (name != "gpus" && std::count(kGiven.begin(), kGiven.end(), name) != 0)
    value.Fail(absl::StrCat("${", name, "} means something already"), "give the parameter another name");
}

std::string ParamError(const std::string& value) {
  if (value.find("${") == value.npos) return "";
  return absl::StrCat("'", value, "' is taken as it stands: ${…} in a parameter is not filled");
}

}  // namespace poolmark::spec
