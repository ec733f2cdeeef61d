#include <arpa/inet.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/secrets.h"
#include "common/base/units.h"
#include "common/spec/read.h"
#include "common/spec/yaml.h"

namespace poolmark::spec {
namespace {

void ReadName(Map* map, std::string* out) {
  auto value = map->Need("name", "give each a name of its own");
  if (!value) return;
  auto text = value->Text();
  if (!text) return;
  if (!IsName(*text)) {
    return value->Fail(absl::StrCat("'", *text, "' is no name"),
                       "use lower case letters, digits, '.', '_' and '-', at most 63");
  }
  *out = *text;
}

bool IsIpAddress(const std::string& text) {
  in6_addr parsed;
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1 || inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

// Where something outside the pool answers: an address or a host name, with or without ":port".
bool IsHost(const std::string& text) {
  if (IsIpAddress(text)) return true;
  std::string host = text;
  if (const size_t colon = text.rfind(':'); colon != std::string::npos) {
    int port = 0;
    const std::string digits = text.substr(colon + 1);
    if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(digits, &port) ||
        port < 1 || port > 65535)
      return false;
    host.resize(colon);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    in6_addr parsed;
    return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &parsed) == 1;
  }
  if (IsIpAddress(host)) return host.find(':') == std::string::npos;
  if (host.size() > 253) return false;
  const std::vector<std::string> labels = absl::StrSplit(host, '.');
  for (const std::string& label : labels) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-' ||
        !std::all_of(label.begin(), label.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-'; }))
      return false;
  }
  // 300.0.0.1 is no name.
  return !std::all_of(labels.back().begin(), labels.back().end(), absl::ascii_isdigit);
}

void ReadHost(const Value& value, std::string* out) {
  auto text = value.Text();
  if (!text) return;
  if (!text->empty() && !IsHost(*text))
    return value.Fail(absl::StrCat("'", *text, "' is no address"),
                      "give an IPv4 or IPv6 address or a host name, with ':port' where it needs one");
  *out = *text;
}

// The pool's own traffic goes by addresses: preflight looks for the device that carries one.
void ReadTcp(const Value& value, std::string* out) {
  auto text = value.Text();
  if (!text || text->empty()) return;
  if (!IsIpAddress(*text))
    return value.Fail(absl::StrCat("'", *text, "' is no IPv4 or IPv6 address"),
                      "give the machine's address in the pool's network, such as 10.0.0.1 or fd00::1");
  *out = *text;
}

MachineSpec ReadMachine(const Value& value) {
  MachineSpec machine;
  Map map(value);
  ReadName(&map, &machine.name);
  if (auto net = map.Get("net")) {
    Map inner(*net);
    if (auto tcp = inner.Get("tcp")) ReadTcp(*tcp, &machine.tcp_address);
    inner.Texts("rdma", &machine.rdma_devices);
    inner.Finish();
  }
  if (auto gpus = map.Get("gpus")) {
    if (!(gpus->is_text() && *gpus->Text() == "all")) {
      if (auto count = gpus->Whole(0, 1024)) machine.gpus = static_cast<unsigned>(*count);
    }
  }
  if (auto disk = map.Get("disk")) {
    auto text = disk->Text();
    if (text && (text->empty() || text->front() != '/' || text->find("/../") != text->npos)) {
      disk->Fail(absl::StrCat("'", *text, "' is no absolute path"));
    } else if (text) {
      machine.disk = *text;
    }
  }
  map.Flag("public", &machine.is_public);
  if (auto bmc = map.Get("bmc")) {
    Map inner(*bmc);
    Bmc read;
    if (auto kind = inner.Need("kind")) read.kind = kind->OneOf({"redfish", "ipmitool"}).value_or("");
    if (auto address = inner.Need("address")) {
      ReadHost(*address, &read.address);
      if (read.kind == "redfish" && address->is_text() && address->Text()->empty())
        address->Fail("Redfish needs the BMC's address", "kind: ipmitool can ask the machine's own BMC");
    }
    if (auto login = inner.Need("login", "name a secret that the machine holds")) {
      read.login = login->Text().value_or("");
      if (login->is_text() && !read.address.empty() && !IsSecretName(read.login))
        login->Fail(absl::StrCat("'", read.login, "' is no name of a secret"),
                    "the name of a file in the machine's secrets directory, never the login itself");
    }
    inner.Finish();
    machine.bmc = read;
  }
  map.Finish();
  return machine;
}

}  // namespace

Result<PoolSpec> ReadPool(std::string_view yaml, const std::string& where, Errors* errors) {
  size_t before = errors->size();
  PoolSpec pool;
  auto root = Value::Parse(yaml, where, errors);
  if (!root) return ToStatus(*errors);
  Map map(*root);
  CheckVersion(&map);
  auto head = map.Get("head");
  if (head) pool.head = head->Text().value_or("");
  if (auto machines = map.Need("machines", "list the machines, or give how many the plan may pick")) {
    if (machines->is_text()) {
      if (auto count = machines->Whole(1, 1000)) pool.machine_count = static_cast<unsigned>(*count);
    } else {
      std::set<std::string> names;
      for (const Value& value : machines->List()) {
        MachineSpec machine = ReadMachine(value);
        if (!machine.name.empty() && !names.insert(machine.name).second) {
          value.Fail(absl::StrCat("machine '", machine.name, "' stands twice"));
        }
        pool.machines.push_back(std::move(machine));
      }
      if (machines->is_list() && pool.machines.empty())
        machines->Fail("is empty, at least one machine is needed");
      // Without a good name among them the machines' own errors say enough.
      if (head && !pool.head.empty() && !names.empty() && names.count(pool.head) == 0) {
        head->Fail(absl::StrCat("'", pool.head, "' is none of the machines"),
                   names.size() > 12 ? "name one of them"
                                     : absl::StrCat("name one of them: ", absl::StrJoin(names, ", ")));
      }
      if (pool.head.empty() && !pool.machines.empty()) pool.head = pool.machines[0].name;
    }
  }
  if (auto switches = map.Get("switches")) {
    for (const Value& value : switches->List()) {
      SwitchSpec one;
      Map inner(value);
      ReadName(&inner, &one.name);
      if (auto address = inner.Get("address")) ReadHost(*address, &one.address);
      inner.Text("login", &one.login);
      inner.Flag("ignore", &one.ignore);
      inner.Finish();
      pool.switches.push_back(std::move(one));
    }
  }
  map.Finish();
  if (errors->size() > before) return ToStatus(*errors);
  return pool;
}

}  // namespace poolmark::spec
