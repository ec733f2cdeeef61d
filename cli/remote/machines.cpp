// machines, machine drain|undrain|quarantine|clear|revoke.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/remote/commands.h"
#include "cli/remote/show.h"
#include "common/base/digest.h"
#include "common/base/time_format.h"
#include "common/base/units.h"

namespace poolmark::cli {
namespace {

std::string GpuText(const v1::Machine& machine) {
  if (machine.gpus() == 0) return "none";
  return absl::StrCat(machine.gpus(), " × ", machine.gpu_model());
}

std::string ClockText(const v1::Machine& machine) {
  if (!machine.has_clock_offset_ns()) return "not measured";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%+.2f ms", static_cast<double>(machine.clock_offset_ns()) / 1e6);
  return buffer;
}

// What the machine says of its own clock.
std::string ClockSource(const v1::Facts& facts) {
  if (!facts.has_clock()) return "not known";
  const v1::ClockState& clock = facts.clock();
  if (!clock.synchronised()) return clock.source() + ", not synchronised";
  if (clock.follows_itself()) return clock.source() + ", follows itself";
  if (!clock.has_bound_ns()) return clock.source();
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, " ±%.2f ms", static_cast<double>(clock.bound_ns()) / 1e6);
  return clock.source() + buffer;
}

void AddRow(const v1::Machine& machine, bool with_facts, Table* table) {
  std::string age = FormatDuration(
      std::chrono::duration_cast<std::chrono::seconds>(Nanoseconds(machine.last_heartbeat_age_ns())));
  std::vector<Cell> row = {{machine.name()},
                           {MachineWord(machine.state()), MachineColour(machine.state())},
                           {machine.job_id()},
                           {machine.address()},
                           {age},
                           {ClockText(machine)},
                           {GpuText(machine)},
                           {machine.agent_version()}};
  if (with_facts) {
    row.push_back({absl::StrCat(machine.facts().cpus())});
    row.push_back({FormatBytes(machine.facts().memory_bytes())});
    row.push_back({absl::StrCat(machine.facts().rdma_ports_size())});
    row.push_back({ClockSource(machine.facts())});
  }
  row.push_back({machine.reason()});
  table->Add(std::move(row));
}

Table MachineTable(bool with_facts) {
  std::vector<std::string> columns = {"MACHINE", "STATE", "JOB",  "ADDRESS",
                                      "HEARD",   "CLOCK", "GPUS", "AGENT"};
  if (with_facts) columns.insert(columns.end(), {"CPUS", "MEMORY", "RDMA PORTS", "CLOCK SOURCE"});
  columns.push_back("REASON");
  return Table(std::move(columns));
}

}  // namespace

int RunMachines(const MachineOptions& options) {
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::ListMachinesRequest request;
  request.set_with_facts(options.facts);
  Table table = MachineTable(options.facts);
  std::vector<Json> rows;
  for (;;) {
    auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::ListMachines, request,
                           rpc::Deadline("ControllerService/ListMachines"));
    if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
    for (const auto& machine : reply->machines()) {
      // One that left for good is revoked, and then no part of the pool.
      if (machine.state() == v1::MACHINE_STATE_REVOKED && !options.all) continue;
      AddRow(machine, options.facts, &table);
      rows.push_back(MachineJson(machine));
    }
    if (reply->next_page_token().empty() || reply->machines().empty()) break;
    request.set_page_token(reply->next_page_token());
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return kExitOk;
}

int RunMachineAction(const MachineOptions& options) {
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  std::string word = options.action;
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  v1::MachineAction action = v1::MACHINE_ACTION_UNSPECIFIED;
  if (!v1::MachineAction_Parse("MACHINE_ACTION_" + word, &action))
    return Fail(InvalidInput("machine", absl::StrCat("'", options.action, "' is no action")), format);
  v1::SetMachineStateRequest request;
  request.set_request_id(NewUuid());
  request.set_machine(options.machine);
  request.set_action(action);
  request.set_reason(options.reason);
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::SetMachineState, request,
                         rpc::Deadline("ControllerService/SetMachineState"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
  Table table = MachineTable(false);
  AddRow(reply->machine(), false, &table);
  WriteOut(format == Format::kTable ? table.Text() : JsonText(MachineJson(reply->machine()), format));
  return kExitOk;
}

}  // namespace poolmark::cli
