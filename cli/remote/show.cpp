#include "cli/remote/show.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/output/exit_code.h"
#include "cli/output/one_line.h"
#include "common/base/time_format.h"

namespace poolmark::cli {
namespace {

// "JOB_STATE_QUEUED" -> "QUEUED".
std::string Word(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix, 0) != 0) return "UNKNOWN";
  return name.substr(prefix.size());
}

Json Time(int64_t wall_ns) {
  return wall_ns == 0 ? Json() : Json(IsoUtc(Nanoseconds(wall_ns)));
}
Json Seconds(int64_t ns) {
  return Json(static_cast<double>(ns) / 1e9);
}

Json PositionJson(const v1::JobPosition& position) {
  return {{"cycle", position.cycle()},
          {"stack", position.stack()},
          {"workload", position.workload()},
          {"level", position.level()},
          {"repeat", position.repeat()},
          {"phase", position.phase()},
          {"done_repeats", position.done_repeats()},
          {"total_repeats", position.total_repeats()}};
}

Json CheckJson(const v1::CheckResult& check) {
  return {{"id", check.id()},
          {"machine", check.machine()},
          {"outcome", OutcomeWord(check.outcome())},
          {"expected", check.expected()},
          {"observed", check.observed()},
          {"evidence", check.evidence()},
          {"hint", check.hint()},
          {"seconds", Seconds(check.duration_ns())}};
}

// The parsed text, or the text itself where it is no JSON.
Json Embedded(const std::string& text) {
  if (text.empty()) return Json();
  auto parsed = ParseJson(text);
  return parsed.ok() ? *parsed : Json(text);
}

std::string NumberText(const Json& value) {
  if (!value.is_number_float()) return value.is_string() ? value.get<std::string>() : value.dump();
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value.get<double>());
  return buffer;
}

}  // namespace

std::string StateWord(v1::JobState state) {
  return Word(v1::JobState_Name(state), "JOB_STATE_");
}
std::string TeardownWord(v1::TeardownVerdict verdict) {
  return Word(v1::TeardownVerdict_Name(verdict), "TEARDOWN_VERDICT_");
}
std::string MachineWord(v1::MachineState state) {
  return Word(v1::MachineState_Name(state), "MACHINE_STATE_");
}
std::string OutcomeWord(v1::Outcome outcome) {
  return Word(v1::Outcome_Name(outcome), "OUTCOME_");
}

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_INVALID ||
         state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED || state == v1::JOB_STATE_REFUSED;
}

Colour StateColour(v1::JobState state) {
  if (state == v1::JOB_STATE_SUCCEEDED) return Colour::kGreen;
  if (state == v1::JOB_STATE_INVALID || state == v1::JOB_STATE_CANCELLED) return Colour::kYellow;
  if (state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_REFUSED) return Colour::kRed;
  return Colour::kBold;
}

Colour MachineColour(v1::MachineState state) {
  if (state == v1::MACHINE_STATE_READY || state == v1::MACHINE_STATE_BUSY) return Colour::kGreen;
  if (state == v1::MACHINE_STATE_SUSPECT || state == v1::MACHINE_STATE_DRAINED) return Colour::kYellow;
  return Colour::kRed;
}

int ExitCodeOfJob(const v1::Job& job) {
  if (!IsTerminal(job.state())) return kExitOurFault;
  if (job.teardown() == v1::TEARDOWN_VERDICT_DIRTY || job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN)
    return kExitDirty;
  switch (job.state()) {
    case v1::JOB_STATE_SUCCEEDED:
      return kExitOk;
    case v1::JOB_STATE_INVALID:
      return kExitJobInvalid;
    case v1::JOB_STATE_CANCELLED:
      return kExitCancelled;
    case v1::JOB_STATE_REFUSED:
      return kExitUsage;
    default:
      return kExitJobFailed;
  }
}

std::string PositionText(const v1::JobPosition& position) {
  if (position.cycle() == 0) return "";
  std::string text = absl::StrCat("cycle ", position.cycle());
  if (!position.stack().empty()) absl::StrAppend(&text, ", ", position.stack());
  if (!position.workload().empty()) absl::StrAppend(&text, "/", position.workload(), " ", position.level());
  if (position.repeat() != 0) absl::StrAppend(&text, ", repeat ", position.repeat());
  if (!position.phase().empty()) absl::StrAppend(&text, ", ", position.phase());
  if (position.total_repeats() != 0)
    absl::StrAppend(&text, " (", position.done_repeats(), " of ", position.total_repeats(), " repeats done)");
  return text;
}

Json JobJson(const v1::Job& job) {
  Json reasons = Json::array();
  for (const auto& reason : job.reasons()) {
    reasons.push_back({{"code", reason.code()},
                       {"message", reason.message()},
                       {"machine", reason.machine()},
                       {"check", reason.check()}});
  }
  Json labels = Json::object();
  for (const auto& label : job.labels()) labels[label.key()] = label.value();
  Json machines = Json::array();
  for (const auto& machine : job.machines()) machines.push_back(machine);
  return {{"id", job.id()},
          {"name", job.name()},
          {"owner", job.owner()},
          {"state", StateWord(job.state())},
          {"finished", IsTerminal(job.state())},
          {"teardown", TeardownWord(job.teardown())},
          {"reasons", reasons},
          {"position", job.has_position() ? PositionJson(job.position()) : Json()},
          {"submitted", Time(job.submitted_wall_ns())},
          {"started", job.has_started_wall_ns() ? Time(job.started_wall_ns()) : Json()},
          {"ended", job.has_finished_wall_ns() ? Time(job.finished_wall_ns()) : Json()},
          {"machines", machines},
          {"cancel_requested", job.cancel_requested()},
          {"last_sequence", job.last_sequence()},
          {"estimated_seconds", Seconds(job.estimated_ns())},
          {"waiting_for", job.waiting_for()},
          {"labels", labels}};
}

Json EventJson(const v1::JobEvent& event) {
  Json json = {{"sequence", event.sequence()},
               {"time", Time(event.wall_ns())},
               {"kind", event.kind()},
               {"state", StateWord(event.state())}};
  if (event.has_position()) json["position"] = PositionJson(event.position());
  if (!event.machine().empty()) json["machine"] = event.machine();
  if (!event.process().empty()) json["process"] = event.process();
  if (!event.message().empty()) json["message"] = event.message();
  if (event.has_check()) json["check"] = CheckJson(event.check());
  if (!event.data_json().empty()) json["data"] = Embedded(event.data_json());
  return json;
}

Json FactsJson(const v1::Facts& facts) {
  Json gpus = Json::array();
  for (const auto& gpu : facts.gpus()) {
    gpus.push_back({{"index", gpu.index()},
                    {"vendor", gpu.vendor()},
                    {"model", gpu.model()},
                    {"uuid", gpu.uuid()},
                    {"memory_bytes", gpu.memory_bytes()},
                    {"driver", gpu.driver()}});
  }
  Json nics = Json::array();
  for (const auto& nic : facts.nics()) {
    nics.push_back({{"name", nic.name()},
                    {"address", nic.address()},
                    {"mtu", nic.mtu()},
                    {"driver", nic.driver()},
                    {"state", nic.operstate()},
                    {"speed_bits_per_second",
                     nic.has_speed_bits_per_second() ? Json(nic.speed_bits_per_second()) : Json()}});
  }
  Json rdma = Json::array();
  for (const auto& port : facts.rdma_ports()) {
    rdma.push_back({{"device", port.device()},
                    {"port", port.port()},
                    {"state", port.state()},
                    {"link_layer", port.link_layer()},
                    {"rate", port.rate()}});
  }
  Json tools = Json::array();
  for (const auto& tool : facts.tools())
    tools.push_back({{"name", tool.name()}, {"version", tool.version()}, {"path", tool.path()}});
  Json drives = Json::array();
  for (const auto& drive : facts.drives()) {
    drives.push_back({{"name", drive.name()},
                      {"model", drive.model()},
                      {"size_bytes", drive.size_bytes()},
                      {"rotational", drive.rotational()}});
  }
  Json clock;
  if (facts.has_clock()) {
    const v1::ClockState& state = facts.clock();
    clock = {{"source", state.source()},
             {"synchronised", state.synchronised()},
             {"bound_seconds", state.has_bound_ns() ? Seconds(state.bound_ns()) : Json()},
             {"follows_itself", state.follows_itself()}};
  }
  Json executables = Json::array();
  for (const auto& name : facts.executables()) executables.push_back(name);
  return {{"hostname", facts.hostname()},
          {"boot_id", facts.boot_id()},
          {"os", facts.os()},
          {"kernel", facts.kernel()},
          {"cpu_model", facts.cpu_model()},
          {"cpus", facts.cpus()},
          {"numa_nodes", facts.numa_nodes()},
          {"memory_bytes", facts.memory_bytes()},
          {"memory_available_bytes", facts.memory_available_bytes()},
          {"memory_lockable_bytes",
           facts.has_memory_lockable_bytes() ? Json(facts.memory_lockable_bytes()) : Json()},
          {"memlock_limit_bytes", facts.has_memlock_bytes() ? Json(facts.memlock_bytes()) : Json()},
          {"open_files_limit", facts.has_nofile() ? Json(facts.nofile()) : Json()},
          {"clock", clock},
          {"gpus", gpus},
          {"gpu_tool", facts.gpu_tool()},
          {"nics", nics},
          {"rdma_ports", rdma},
          {"drives", drives},
          {"containment", facts.containment()},
          {"tools", tools},
          {"executables", executables},
          {"work_dir", facts.work_dir()},
          {"work_dir_free_bytes", facts.work_dir_free_bytes()},
          {"product", facts.product()}};
}

Json MachineJson(const v1::Machine& machine) {
  Json json = {
      {"name", machine.name()},
      {"state", MachineWord(machine.state())},
      {"reason", machine.reason()},
      {"job", machine.job_id()},
      {"address", machine.address()},
      {"agent_version", machine.agent_version()},
      {"last_heartbeat_age_seconds", Seconds(machine.last_heartbeat_age_ns())},
      {"clock_offset_seconds", machine.has_clock_offset_ns() ? Seconds(machine.clock_offset_ns()) : Json()},
      {"clock_uncertainty_seconds",
       machine.has_clock_uncertainty_ns() ? Seconds(machine.clock_uncertainty_ns()) : Json()},
      {"certificate_expires", Time(machine.certificate_expires_wall_ns())},
      {"gpus", machine.gpus()},
      {"gpu_model", machine.gpu_model()}};
  if (machine.has_facts()) json["facts"] = FactsJson(machine.facts());
  return json;
}

Json StackJson(const v1::StackInfo& stack) {
  Json components = Json::array();
  for (const auto& component : stack.components()) components.push_back(component);
  return {{"name", stack.name()},     {"strategy", stack.strategy()},   {"description", stack.description()},
          {"components", components}, {"simulated", stack.simulated()}, {"validated", stack.validated()}};
}

std::string ReasonText(const v1::Reason& reason, const std::string& indent) {
  std::string text = absl::StrCat(reason.code(), reason.machine().empty() ? "" : " on " + reason.machine(),
                                  ": ", reason.message());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return absl::StrReplaceAll(Printable(text, true), {{"\n", "\n" + indent}});
}

std::string EventLine(const v1::JobEvent& event) {
  std::string time = IsoUtc(Nanoseconds(event.wall_ns()));
  std::string text = time.size() >= 19 ? time.substr(11, 8) : time;
  std::string kind = event.kind();
  kind.resize(std::max<size_t>(kind.size(), 9), ' ');
  absl::StrAppend(&text, " ", kind);
  if (event.kind() == "state") absl::StrAppend(&text, " ", StateWord(event.state()));
  if (!event.machine().empty()) absl::StrAppend(&text, " ", event.machine());
  if (!event.process().empty()) absl::StrAppend(&text, " ", event.process());
  if (event.has_check()) {
    const auto& check = event.check();
    absl::StrAppend(&text, " ", check.id(), " ", OutcomeWord(check.outcome()));
    if (!check.observed().empty()) absl::StrAppend(&text, ": ", check.observed());
    if (check.outcome() != v1::OUTCOME_PASS && check.outcome() != v1::OUTCOME_SKIPPED) {
      if (!check.expected().empty()) absl::StrAppend(&text, "; expected: ", check.expected());
      if (!check.hint().empty()) absl::StrAppend(&text, "; ", check.hint());
    }
  } else if (!event.message().empty()) {  // of a check it is the same in short
    absl::StrAppend(&text, " ", event.message());
  }
  if (event.kind() == "progress") {
    std::string position = PositionText(event.position());
    absl::StrAppend(&text, position.empty() ? "" : " ", position, "  ", ProgressText(event.data_json()));
  }
  return Printable(OneLine(text));
}

std::string ProgressText(const std::string& data_json) {
  if (data_json.empty()) return "";
  auto data = ParseJson(data_json);
  if (!data.ok() || !data->is_object()) return "";
  auto number = [&](const char* key) -> std::optional<double> {
    auto found = data->find(key);
    if (found == data->end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  std::string text;
  const auto seconds = number("t"), in_flight = number("in_flight"), rate = number("ended_per_s"),
             ended = number("ended"), failed = number("failed"), events = number("events_per_s");
  if (seconds && in_flight && rate && ended && failed && events) {  // a tick of `poolmark load`
    const std::string phase = data->contains("phase") && (*data)["phase"].is_string()
                                  ? (*data)["phase"].get<std::string>()
                                  : std::string("load");
    char buffer[200];
    std::snprintf(buffer, sizeof buffer,
                  " %.0f s: %.1f requests/s, %.0f in flight, %.0f ended, %.0f failed, %.0f events/s",
                  *seconds, *rate, *in_flight, *ended, *failed, *events);
    return Printable(phase + buffer);
  }
  for (const auto& [key, value] : data->items()) {
    if (value.is_object() || value.is_array() || value.is_null()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "  ", key, " ", NumberText(value));
  }
  return Printable(text);
}

}  // namespace poolmark::cli
