#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

MachineSpec ReadMachine(const Value& value) {
  MachineSpec machine;
  Map map(value);
  ReadName(&map, &machine.name);
  if (auto net = map.Get("net")) {
    Map inner(*net);
    inner.Text("tcp", &machine.tcp_address);
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
    if (auto address = inner.Need("address")) read.address = address->Text().value_or("");
    if (auto login = inner.Need("login", "name a secret that the machine holds"))
      read.login = login->Text().value_or("");
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
      inner.Text("address", &one.address);
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
