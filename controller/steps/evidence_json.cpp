#include "controller/steps/evidence_json.h"

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/results/cycle_files.h"
#include "common/results/layout.h"

namespace poolmark::controller {
namespace {

std::string OutcomeName(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_PASS:
      return "pass";
    case v1::OUTCOME_NOTE:
      return "note";
    case v1::OUTCOME_SKIPPED:
      return "skipped";
    case v1::OUTCOME_NOT_MEASURED:
      return "not_measured";
    default:
      return "fail";
  }
}

results::CheckEntry EntryOf(const v1::CheckResult& check) {
  results::CheckEntry entry;
  entry.id = check.id();
  entry.machine = check.machine();
  entry.outcome = OutcomeName(check.outcome());
  entry.expected = check.expected();
  entry.observed = check.observed();
  entry.evidence = check.evidence();
  entry.hint = check.hint();
  entry.duration_seconds = static_cast<double>(check.duration_ns()) / 1e9;
  return entry;
}

std::string FirstFailed(const std::vector<v1::CheckResult>& checks) {
  for (const v1::CheckResult& check : checks) {
    const std::string name = OutcomeName(check.outcome());
    if (name == "fail" || name == "not_measured") return check.id();
  }
  return "";
}

template <class T>
Measured<T> OrMissing(const std::optional<T>& value, const std::string& why) {
  if (value) return *value;
  return NotMeasured{why};
}

std::string StateOf(v1::LedgerItemState state) {
  switch (state) {
    case v1::LEDGER_ITEM_STATE_GONE:
      return "removed";
    case v1::LEDGER_ITEM_STATE_ALREADY_GONE:
      return "gone";
    case v1::LEDGER_ITEM_STATE_LEFT:
      return "left";
    default:
      return "unknown";
  }
}

Status Put(const JobRun& run, const std::string& relative, Result<std::string> text) {
  if (!text.ok()) return text.status();
  const std::string path = JoinPath(run.results_dir, relative);
  POOLMARK_RETURN_IF_ERROR(MakeDirs(path.substr(0, path.rfind('/')), 0750));
  return AtomicWriteFile(path, *text, 0640);
}

}  // namespace

Status WritePreflight(const JobRun& run, const std::vector<v1::CheckResult>& checks,
                      const std::vector<LineRate>& rates, bool passed, Nanoseconds started_wall) {
  results::PreflightRecord file;
  file.job_id = run.job_id;
  file.started = IsoUtc(started_wall);
  file.ended = IsoUtc(run.clock->Wall());
  file.passed = passed;
  file.failed_check = FirstFailed(checks);
  for (const v1::CheckResult& check : checks) file.checks.push_back(EntryOf(check));
  for (const LineRate& rate : rates) {
    const std::string why = rate.failure.empty() ? "the tool gave no figure" : rate.failure;
    results::LineRate line;
    line.from = rate.link.from;
    line.to = rate.link.to;
    line.path = "tcp";
    line.tool = rate.tool.name();
    line.tool_version = rate.tool.version();
    line.bits_per_second = OrMissing(rate.bits_per_second, why);
    line.runs = rate.runs;
    line.seconds = run.job->line_rate_seconds;
    line.streams = static_cast<int>(rate.streams);
    line.latency_p50_us = NotMeasured{"iperf3 measures no latency"};
    line.latency_p99_us = line.latency_p50_us;
    line.counted_per_byte = rate.tcp_ratios;
    file.line_rates.push_back(line);
    if (rate.link.path != "rdma") continue;
    line.path = "rdma";
    line.counted_per_byte = rate.rdma_ratios;
    line.tool = rate.rdma_tool.name();
    line.tool_version = rate.rdma_tool.version();
    line.bits_per_second = OrMissing(rate.rdma_bits_per_second, why);
    line.runs.clear();
    if (rate.rdma_bits_per_second) line.runs.push_back(*rate.rdma_bits_per_second);
    line.streams = 1;
    line.latency_p50_us = OrMissing(rate.rdma_latency_p50_us, why);
    line.latency_p99_us = OrMissing(rate.rdma_latency_p99_us, why);
    file.line_rates.push_back(line);
  }
  if (!run.job->line_rate) file.notes.push_back("the line rate was not measured: preflight.line_rate is off");
  return Put(run, std::string(results::kPreflightFile), results::Encode(file));
}

Status WriteVerify(const JobRun& run, uint32_t cycle, const std::string& stack,
                   const VerifyEvidence& evidence, Nanoseconds started_wall) {
  results::VerifyRecord file;
  file.job_id = run.job_id;
  file.cycle = static_cast<int>(cycle);
  file.stack = stack;
  file.started = IsoUtc(started_wall);
  file.ended = IsoUtc(run.clock->Wall());
  file.failed_check = FirstFailed(evidence.checks);
  file.passed = file.failed_check.empty() && !evidence.checks.empty();
  for (const v1::CheckResult& check : evidence.checks) file.checks.push_back(EntryOf(check));
  for (const auto& [check, proofs] : evidence.proofs) {
    for (const CounterProof& proof : proofs) {
      results::CounterProof entry;
      entry.process = proof.process;
      entry.machine = proof.machine;
      entry.series = proof.series;
      entry.before = OrMissing(proof.before, "not on the page");
      entry.after = OrMissing(proof.after, "not on the page");
      entry.expected = proof.expected;
      file.proofs[check].push_back(std::move(entry));
    }
  }
  file.diagnosis = evidence.diagnosis;
  return Put(run, results::VerifyFile(static_cast<int>(cycle)), results::Encode(file));
}

Status WriteTeardown(const JobRun& run, uint32_t cycle, const std::string& stack, const std::string& cause,
                     const TeardownResult& result, Nanoseconds started_wall) {
  results::TeardownRecord file;
  file.job_id = run.job_id;
  file.cycle = static_cast<int>(cycle);
  file.stack = stack;
  file.cause = cause;
  file.started = IsoUtc(started_wall);
  file.ended = IsoUtc(run.clock->Wall());
  file.outcome = v1::TeardownVerdict_Name(result.verdict).substr(sizeof("TEARDOWN_VERDICT_") - 1);
  for (const v1::CheckResult& check : result.store) {
    results::TeardownItem item;
    item.machine = check.machine();
    item.kind = "store";
    item.name = check.id();
    item.state = check.outcome() == v1::OUTCOME_PASS ? "removed" : "unknown";
    item.proof = check.observed();
    file.items.push_back(std::move(item));
  }
  for (const MachineTeardown& machine : result.machines) {
    for (const v1::LedgerItem& ledger : machine.items) {
      results::TeardownItem item;
      item.machine = machine.machine;
      item.kind = ledger.kind();
      item.name = ledger.name();
      item.state = StateOf(ledger.state());
      item.proof = ledger.proof();
      item.detail = ledger.detail();
      item.forced = ledger.forced();
      file.items.push_back(std::move(item));
    }
    if (!machine.note.empty()) {
      results::TeardownItem item;
      item.machine = machine.machine;
      item.kind = "machine";
      item.name = machine.machine;
      item.state = machine.verdict == v1::TEARDOWN_VERDICT_CLEAN ? "gone" : "unknown";
      item.detail = machine.note;
      file.items.push_back(std::move(item));
    }
    for (const std::string& left : machine.leftovers)
      file.leftovers.push_back(absl::StrCat(machine.machine, ": ", left));
  }
  return Put(run, results::TeardownFile(static_cast<int>(cycle)), results::Encode(file));
}

}  // namespace poolmark::controller
