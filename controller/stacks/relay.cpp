#include "controller/stacks/relay.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/relay/keys.h"

namespace poolmark::controller {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
// Longer than any job: the keys are thrown away with the job's directory.
constexpr Nanoseconds kKeyLife = std::chrono::hours(24 * 30);

std::string Bracketed(const std::string& host) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]") : host;
}

std::string FileOf(const std::string& id, const char* what) {
  return absl::StrCat("relay/", id, ".", what);
}

// argv of one end; its files lie in the job's directory of its machine.
std::vector<spec::ArgWord> Argv(const Instance& instance, const char* side, const std::string& listen,
                                const std::string& to) {
  const std::string place = absl::StrCat(instance.machine->job_dir, "/");
  std::vector<spec::ArgWord> argv;
  for (const std::string& word :
       {std::string("relay"), std::string(side), std::string("--listen"), listen, std::string("--to"), to,
        std::string("--key"), place + FileOf(instance.id, "key"), std::string("--certificate"),
        place + FileOf(instance.id, "crt"), std::string("--accept"), place + FileOf(instance.id, "accept")}) {
    argv.push_back({word, ""});
  }
  return argv;
}

}  // namespace

std::vector<Instance> PlaceRelays(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
                                  std::vector<Instance>* instances, PortPool* ports,
                                  std::deque<spec::ProcessTemplate>* templates, Errors* refusals) {
  std::vector<Instance> relays;
  auto refuse = [&](std::string message, std::string hint) {
    refusals->push_back({absl::StatusCode::kFailedPrecondition, "plan", absl::StrCat("stack ", stack.name),
                         std::move(message), std::move(hint)});
  };
  auto add = [&](const std::string& name, const PoolMachine& machine, uint32_t port) -> Instance& {
    spec::ProcessTemplate& process = templates->emplace_back();
    process.name = name;
    process.role = spec::Role::kRelay;
    process.exec = "poolmark";
    process.ports = {"main"};
    process.ready.tcp = "main";
    process.ready.within = std::chrono::seconds(30);
    process.stop_grace = std::chrono::seconds(5);
    Instance& relay = relays.emplace_back();
    relay.process = &process;
    relay.machine = &machine;
    relay.id = absl::StrCat(stack.name, ".", name, "-", machine.name);
    relay.ports["main"] = port;
    return relay;
  };
  std::set<std::string> users;  // machines with processes of this stack
  for (const Instance& instance : *instances) {
    if (instance.machine != nullptr) users.insert(instance.machine->name);
  }
  bool found = false;
  for (Instance& store : *instances) {
    if (store.process->role != spec::Role::kStore) continue;
    found = true;
    if (store.attached != nullptr) {
      refuse("relay: store needs a store that the job starts, this one is attached", "set relay: none");
      continue;
    }
    if (store.count > 1) {
      refuse(absl::StrCat("relay: store needs one store, '", store.process->name, "' has ", store.count),
             "leave out `count`");
      continue;
    }
    store.address = kLoopback;
    for (const auto& [name, port] : store.ports) {
      const std::string link = absl::StrCat("relay-", store.process->name, "-", name);
      Instance& server = add(absl::StrCat(link, "-server"), *store.machine, ports->Take());
      server.relay_of = store.id;
      templates->back().argv =
          Argv(server, "server", absl::StrCat(Bracketed(store.machine->address), ":", server.ports["main"]),
               absl::StrCat(kLoopback, ":", port));
      const std::string to = absl::StrCat(Bracketed(store.machine->address), ":", server.ports["main"]);
      for (const PoolMachine& machine : machines) {
        if (machine.name == store.machine->name || users.count(machine.name) == 0) continue;
        Instance& client = add(absl::StrCat(link, "-client"), machine, ports->Take());
        client.address = kLoopback;
        client.relay_of = store.id;
        store.relayed[machine.name][name] = client.ports["main"];
        templates->back().argv =
            Argv(client, "client", absl::StrCat(kLoopback, ":", client.ports["main"]), to);
      }
    }
  }
  if (!found) refuse("says relay: store and has no process of role store", "set relay: none");
  return relays;
}

Result<std::map<std::string, std::vector<v1::InputFile>>> MakeRelayFiles(const StackPlan& stack,
                                                                         Nanoseconds wall) {
  std::map<std::string, relay::Key> keys;
  std::map<std::string, std::string> server_pins, client_pins;  // by link
  auto link_of = [](const PlannedProcess& process) {
    return process.template_name.substr(0, process.template_name.rfind('-'));
  };
  for (const PlannedProcess& process : stack.processes) {
    if (process.role != spec::Role::kRelay) continue;
    POOLMARK_ASSIGN_OR_RETURN(keys[process.spec.id()],
                              relay::MakeKey(absl::StrCat("relay ", process.machine), wall, kKeyLife));
    const bool server = process.template_name.ends_with("-server");
    absl::StrAppend(&(server ? server_pins : client_pins)[link_of(process)], keys[process.spec.id()].pin,
                    "\n");
  }
  std::map<std::string, std::vector<v1::InputFile>> files;
  for (const PlannedProcess& process : stack.processes) {
    if (process.role != spec::Role::kRelay) continue;
    const std::string& id = process.spec.id();
    const bool server = process.template_name.ends_with("-server");
    // A server without clients (a pool of one machine) accepts its own key: nobody else has it.
    std::string accept = (server ? client_pins : server_pins)[link_of(process)];
    if (accept.empty()) accept = keys[id].pin + "\n";
    for (const auto& [what, content] :
         {std::pair<const char*, const std::string&>{"key", keys[id].private_pem},
          {"crt", keys[id].certificate_pem},
          {"accept", accept}}) {
      v1::InputFile& file = files[id].emplace_back();
      file.set_path(FileOf(id, what));
      file.set_content(content);
      file.set_sha256(Sha256Hex(content));
    }
  }
  return files;
}

}  // namespace poolmark::controller
