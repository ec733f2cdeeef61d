#include "controller/web/views.h"

#include <nlohmann/json.hpp>

#include "common/base/time_format.h"
#include "controller/jobs/job_table.h"

namespace poolmark::controller {
namespace {

// A message of an event or a reason is cut in the page; the files of the results hold it whole.
constexpr size_t kMaxText = 2000;

std::string Text(const std::string& text) {
  return ValidUtf8(text.size() > kMaxText ? text.substr(0, kMaxText) + "…" : text);
}

Json Time(int64_t wall_ns) {
  return wall_ns > 0 ? Json(IsoUtc(Nanoseconds(wall_ns))) : Json();
}

// "JOB_STATE_QUEUED" -> "QUEUED".
std::string Tail(const std::string& name, size_t prefix) {
  return name.size() > prefix ? name.substr(prefix) : name;
}

Json Position(const v1::JobPosition& position) {
  return {{"cycle", position.cycle()},
          {"stack", Text(position.stack())},
          {"workload", Text(position.workload())},
          {"level", Text(position.level())},
          {"repeat", position.repeat()},
          {"phase", Text(position.phase())},
          {"done", position.done_repeats()},
          {"total", position.total_repeats()}};
}

Json Strings(const google::protobuf::RepeatedPtrField<std::string>& list) {
  Json out = Json::array();
  for (const std::string& one : list) out.push_back(Text(one));
  return out;
}

Json FactsView(const v1::Facts& facts) {
  Json out = {{"hostname", Text(facts.hostname())},
              {"os", Text(facts.os())},
              {"kernel", Text(facts.kernel())},
              {"cpu", Text(facts.cpu_model())},
              {"cpus", facts.cpus()},
              {"numa_nodes", facts.numa_nodes()},
              {"memory_bytes", facts.memory_bytes()},
              {"memory_available_bytes", facts.memory_available_bytes()},
              {"containment", Text(facts.containment())},
              {"work_dir", Text(facts.work_dir())},
              {"work_dir_free_bytes", facts.work_dir_free_bytes()},
              {"gpu_tool", Text(facts.gpu_tool())},
              {"executables", Strings(facts.executables())},
              {"gpus", Json::array()},
              {"nics", Json::array()},
              {"rdma", Json::array()},
              {"disks", Json::array()},
              {"drives", Json::array()},
              {"tools", Json::array()}};
  if (facts.has_memory_lockable_bytes()) out["memory_lockable_bytes"] = facts.memory_lockable_bytes();
  for (const auto& disk : facts.disks())
    out["disks"].push_back({{"path", Text(disk.path())}, {"free_bytes", disk.free_bytes()}});
  for (const auto& gpu : facts.gpus())
    out["gpus"].push_back({{"vendor", Text(gpu.vendor())},
                           {"model", Text(gpu.model())},
                           {"memory_bytes", gpu.memory_bytes()},
                           {"driver", Text(gpu.driver())}});
  for (const auto& nic : facts.nics()) {
    Json one = {{"name", Text(nic.name())},
                {"address", Text(nic.address())},
                {"mtu", nic.mtu()},
                {"driver", Text(nic.driver())},
                {"state", Text(nic.operstate())},
                {"speed_bits_per_second", nullptr}};  // what no driver tells is null
    if (nic.has_speed_bits_per_second()) one["speed_bits_per_second"] = nic.speed_bits_per_second();
    out["nics"].push_back(std::move(one));
  }
  for (const auto& port : facts.rdma_ports())
    out["rdma"].push_back({{"device", Text(port.device())},
                           {"port", port.port()},
                           {"state", Text(port.state())},
                           {"rate", Text(port.rate())},
                           {"link_layer", Text(port.link_layer())}});
  for (const auto& drive : facts.drives())
    out["drives"].push_back(
        {{"name", Text(drive.name())}, {"model", Text(drive.model())}, {"size_bytes", drive.size_bytes()}});
  for (const auto& tool : facts.tools())
    out["tools"].push_back(
        {{"name", Text(tool.name())}, {"version", Text(tool.version())}, {"note", Text(tool.note())}});
  return out;
}

}  // namespace

Json JobView(const v1::Job& job, bool report) {
  Json out = {{"id", Text(job.id())},
              {"name", Text(job.name())},
              {"owner", Text(job.owner())},
              {"state", StateName(job.state())},
              {"finished", IsTerminal(job.state())},
              {"teardown", Tail(v1::TeardownVerdict_Name(job.teardown()), sizeof("TEARDOWN_VERDICT_") - 1)},
              {"submitted", Time(job.submitted_wall_ns())},
              {"started", Time(job.started_wall_ns())},
              {"ended", Time(job.finished_wall_ns())},
              {"machines", Strings(job.machines())},
              {"cancel_requested", job.cancel_requested()},
              {"waiting_for", Text(job.waiting_for())},
              {"position", nullptr},
              {"estimated_seconds", nullptr},
              {"reasons", Json::array()},
              {"labels", Json::array()},
              {"report", report}};
  if (job.has_position()) out["position"] = Position(job.position());
  if (job.estimated_ns() > 0) out["estimated_seconds"] = static_cast<double>(job.estimated_ns()) / 1e9;
  for (const auto& reason : job.reasons())
    out["reasons"].push_back({{"code", Text(reason.code())},
                              {"message", Text(reason.message())},
                              {"machine", Text(reason.machine())},
                              {"check", Text(reason.check())}});
  for (const auto& label : job.labels())
    out["labels"].push_back({{"key", Text(label.key())}, {"value", Text(label.value())}});
  return out;
}

Json EventView(const v1::JobEvent& event) {
  Json out = {{"sequence", event.sequence()},
              {"time", Time(event.wall_ns())},
              {"kind", Text(event.kind())},
              {"state", StateName(event.state())},
              {"message", Text(event.message())}};
  if (!event.machine().empty()) out["machine"] = Text(event.machine());
  if (!event.process().empty()) out["process"] = Text(event.process());
  if (event.has_position()) out["position"] = Position(event.position());
  if (event.has_check())
    out["check"] = {{"id", Text(event.check().id())},
                    {"outcome", Tail(v1::Outcome_Name(event.check().outcome()), sizeof("OUTCOME_") - 1)},
                    {"expected", Text(event.check().expected())},
                    {"observed", Text(event.check().observed())}};
  return out;
}

Json TickView(const v1::JobEvent& event) {
  auto line = ParseJson(event.data_json(), "progress");
  if (event.kind() != "progress" || !line.ok() || !line->is_object()) return nullptr;
  Json out = std::move(*line);
  out["wall_ns"] = event.wall_ns();
  out["position"] = Position(event.position());
  return out;
}

Json MachineView(const v1::Machine& machine, uint64_t epoch) {
  Json out = {{"name", Text(machine.name())},
              {"state", Tail(v1::MachineState_Name(machine.state()), sizeof("MACHINE_STATE_") - 1)},
              {"reason", Text(machine.reason())},
              {"job", Text(machine.job_id())},
              {"epoch", epoch},
              {"address", Text(machine.address())},
              {"agent_version", Text(machine.agent_version())},
              {"heartbeat_age_seconds", static_cast<double>(machine.last_heartbeat_age_ns()) / 1e9},
              {"clock_offset_seconds", nullptr},
              {"clock_uncertainty_seconds", nullptr},
              {"certificate_expires", Time(machine.certificate_expires_wall_ns())},
              {"facts", FactsView(machine.facts())}};
  if (machine.has_clock_offset_ns())
    out["clock_offset_seconds"] = static_cast<double>(machine.clock_offset_ns()) / 1e9;
  if (machine.has_clock_uncertainty_ns())
    out["clock_uncertainty_seconds"] = static_cast<double>(machine.clock_uncertainty_ns()) / 1e9;
  return out;
}

}  // namespace poolmark::controller
