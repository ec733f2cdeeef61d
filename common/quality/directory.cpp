#include "common/quality/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/quality/codec.h"

namespace poolmark::quality {
namespace {

Status Delete(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return FromErrno(path, "deleting", errno);
  return absl::OkStatus();
}

// Whole and on disk under `path`, which RenameDurably() then moves into place.
Status WriteSynced(const std::string& path, const std::string& text) {
  POOLMARK_RETURN_IF_ERROR(Delete(path));
  Status written = AppendFile(path, text, true);
  if (!written.ok()) (void)Delete(path);
  return written;
}

// The label in "<prefix><label><suffix>", or "" when the name is another.
std::string LabelIn(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix))
    return "";
  return std::string(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
}

bool IsOfRole(const std::string& label, const std::string& role) {
  return role == "reference" ? label.starts_with("reference_") : label == role;
}

Status WithHint(const Status& status, const std::string& hint) {
  Error error = ErrorOf(status);
  if (error.hint.empty()) error.hint = hint;
  return ToStatus(error);
}

// reference_1.. in order, then control, then candidate.
std::pair<int, int64_t> Rank(const Arm& arm) {
  int role = arm.role == "reference" ? 0 : arm.role == "control" ? 1 : 2;
  return {role, arm.run_index};
}

Status CheckAnswers(const Plan& plan, const Arm& arm, const std::vector<Answer>& answers,
                    const std::string& where) {
  if (answers.size() != plan.samples.size() ||
      arm.num_questions != static_cast<int64_t>(plan.samples.size())) {
    return InvalidInput(where,
                        absl::StrCat("holds ", answers.size(), " answers, the arm file says ",
                                     arm.num_questions, ", the plan has ", plan.samples.size(), " questions"),
                        "run this arm again");
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].qid != plan.samples[i].qid) {
      return InvalidInput(
          absl::StrCat(where, ":", i + 1),
          absl::StrCat("answers question '", answers[i].qid, "', the plan's is '", plan.samples[i].qid, "'"),
          "run this arm again");
    }
    if (answers[i].request_id != plan.samples[i].request_id) {
      return InvalidInput(absl::StrCat(where, ":", i + 1),
                          absl::StrCat("'request_id' is '", answers[i].request_id, "', the plan's is '",
                                       plan.samples[i].request_id, "'"),
                          "run this arm again");
    }
  }
  return absl::OkStatus();
}

}  // namespace

Result<DirectoryLock> DirectoryLock::Take(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FromErrno(path, "opening", errno);
  DirectoryLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return FromErrno(path, "locking", errno);
  return Precondition(path, "is being written by another quality run or analyze", "wait until it has ended");
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

std::string Directory::File(const std::string& name) const {
  return JoinPath(path_, name);
}

Result<std::optional<Plan>> Directory::LoadPlan(bool keep_messages) const {
  std::string path = File("plan.json");
  if (!FileExists(path)) return std::optional<Plan>();
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, max_file_bytes_));
  POOLMARK_ASSIGN_OR_RETURN(Plan plan, DecodePlan(text, path, keep_messages));
  return std::optional<Plan>(std::move(plan));
}

Status Directory::SavePlan(const Plan& plan) const {
  POOLMARK_ASSIGN_OR_RETURN(std::string manifest, EncodeManifest(plan));
  POOLMARK_ASSIGN_OR_RETURN(std::string text, EncodePlan(plan));
  for (const auto& [name, size] :
       {std::pair("manifest.jsonl", manifest.size()), std::pair("plan.json", text.size())})
    POOLMARK_RETURN_IF_ERROR(CheckReadable(File(name), size, "no plan is written",
                                           "ask for fewer questions (--limit) or smaller chunks"));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(File("manifest.jsonl"), manifest));
  return AtomicWriteFile(File("plan.json"), text);
}

bool Directory::HasArm(const std::string& label) const {
  return FileExists(File(absl::StrCat("arm_", label, ".json")));
}

Result<Arm> Directory::LoadArm(const std::string& label) const {
  const std::string file = File(absl::StrCat("arm_", label, ".json"));
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, max_file_bytes_));
  POOLMARK_ASSIGN_OR_RETURN(Arm arm, DecodeArm(text, file));
  if (arm.label != label) {
    return InvalidInput(file,
                        absl::StrCat("'label' is '", arm.label, "', the file's name says '", label, "'"));
  }
  return arm;
}

Result<std::vector<Arm>> Directory::LoadArms(std::vector<std::string>* names) const {
  POOLMARK_ASSIGN_OR_RETURN(*names, ListDir(path_));
  std::vector<Arm> arms;
  for (const std::string& name : *names) {
    std::string label = LabelIn(name, "arm_", ".json");
    if (label.empty()) continue;
    POOLMARK_ASSIGN_OR_RETURN(Arm arm, LoadArm(label));
    arms.push_back(std::move(arm));
  }
  std::sort(arms.begin(), arms.end(), [](const Arm& a, const Arm& b) { return Rank(a) < Rank(b); });
  return arms;
}

Status Directory::CheckArms(const std::vector<std::string>& replaced) const {
  POOLMARK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(path_));
  for (const std::string& name : names) {
    const std::string label = LabelIn(name, "arm_", ".json");
    if (label.empty()) continue;
    const Status read = LoadArm(label).status();
    if (read.ok()) continue;
    const bool goes = ErrorOf(read).code != "schema" &&
                      std::any_of(replaced.begin(), replaced.end(),
                                  [&](const std::string& role) { return IsOfRole(label, role); });
    if (!goes) return WithHint(read, "run this arm again, or delete the file");
  }
  return absl::OkStatus();
}

Result<Pass> Directory::LoadPass(const Plan& plan, const std::string& label, bool keep_texts,
                                 std::vector<std::string>* warnings) const {
  POOLMARK_ASSIGN_OR_RETURN(Arm arm, LoadArm(label));
  return LoadPassOf(plan, std::move(arm), keep_texts, warnings);
}

Result<Pass> Directory::LoadPassOf(const Plan& plan, Arm arm, bool keep_texts,
                                   std::vector<std::string>* warnings) const {
  const std::string arm_file = File(absl::StrCat("arm_", arm.label, ".json"));
  if (arm.plan_fingerprint != plan.plan_fingerprint) {
    return Precondition(arm_file,
                        absl::StrCat("plan_fingerprint is '", arm.plan_fingerprint, "', plan.json's is '",
                                     plan.plan_fingerprint, "'"),
                        "this arm was run with another plan: run it again in this directory");
  }
  if (arm.store_failures > static_cast<int64_t>(plan.store_requests.size())) {
    return InvalidInput(arm_file,
                        absl::StrCat("'store_failures' is ", arm.store_failures, ", the plan has ",
                                     plan.store_requests.size(), " store requests"),
                        "run this arm again");
  }
  const std::string file = File(absl::StrCat("answers_", arm.label, ".jsonl"));
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, max_file_bytes_));
  POOLMARK_ASSIGN_OR_RETURN(std::vector<Answer> answers, DecodeAnswers(text, file, keep_texts));
  POOLMARK_RETURN_IF_ERROR(CheckAnswers(plan, arm, answers, file));
  std::vector<std::string> unheard;
  if (warnings == nullptr) warnings = &unheard;
  if (arm.role != "candidate" && (arm.engagement_measured || arm.counters)) {
    warnings->push_back(absl::StrCat(
        "arm_", arm.label, ".json has blend counters, which only a candidate's pass has: they are ignored"));
  }
  if (!arm.engagement_measured &&
      std::any_of(answers.begin(), answers.end(), [](const Answer& a) { return a.counters.has_value(); })) {
    warnings->push_back(absl::StrCat("answers_", arm.label,
                                     ".jsonl has blend counters, of a pass that captured none: they are "
                                     "ignored"));
  }
  std::optional<RequestLog> requests = LoadRequests(arm, warnings);
  return Pass{std::move(arm), std::move(answers), std::move(requests)};
}

Result<LoadedDirectory> Directory::Load(bool keep_texts) const {
  POOLMARK_ASSIGN_OR_RETURN(std::optional<Plan> plan, LoadPlan(keep_texts));
  if (!plan)
    return NotFound(File("plan.json"), "is missing",
                    "this is no results directory of `quality run`, or its first run did not get that far");
  LoadedDirectory out;
  out.path = path_;
  out.plan = *std::move(plan);
  std::vector<std::string> names;
  POOLMARK_ASSIGN_OR_RETURN(std::vector<Arm> arms, LoadArms(&names));
  for (Arm& arm : arms) {
    POOLMARK_ASSIGN_OR_RETURN(Pass pass, LoadPassOf(out.plan, std::move(arm), keep_texts, &out.warnings));
    out.passes.push_back(std::move(pass));
  }
  for (const std::string& name : names) {
    std::string label = LabelIn(name, "answers_", ".jsonl");
    bool finished = std::any_of(out.passes.begin(), out.passes.end(),
                                [&](const Pass& p) { return p.arm.label == label; });
    if (!label.empty() && !finished) {
      out.warnings.push_back(
          absl::StrCat(name, " has no arm_", label, ".json: that pass did not finish, it is ignored"));
    }
  }
  return out;
}

// Beside the format: what is wrong with it is told and refuses nothing.
std::optional<RequestLog> Directory::LoadRequests(const Arm& arm, std::vector<std::string>* warnings) const {
  const std::string name = absl::StrCat("requests_", arm.label, ".json");
  if (!FileExists(File(name))) return std::nullopt;
  Result<std::string> text = ReadFile(File(name), max_file_bytes_);
  Result<RequestLog> log = text.ok() ? DecodeRequests(*text, name) : Result<RequestLog>(text.status());
  if (!log.ok()) {
    warnings->push_back(absl::StrCat(std::string(log.status().message()), ": it is ignored"));
    return std::nullopt;
  }
  if (log->label != arm.label || log->started_at != arm.started_at || log->finished_at != arm.finished_at) {
    warnings->push_back(
        absl::StrCat(name, " is of another pass than arm_", arm.label, ".json: it is ignored"));
    return std::nullopt;
  }
  return *std::move(log);
}

// The summary goes first: it never stands beside other rows.
Status Directory::DeleteResults() const {
  for (const char* name : {"summary.json", "report.html", "rows.jsonl", "statistics.json"})
    POOLMARK_RETURN_IF_ERROR(Delete(File(name)));
  return SyncDirectory(path_);
}

Status Directory::DeleteRole(const std::string& role) const {
  POOLMARK_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDir(path_));
  for (const auto& [prefix, suffix] :
       {std::pair("arm_", ".json"), std::pair("answers_", ".jsonl"), std::pair("requests_", ".json")}) {
    for (const std::string& name : names) {
      std::string label = LabelIn(name, prefix, suffix);
      if (!label.empty() && IsOfRole(label, role)) POOLMARK_RETURN_IF_ERROR(Delete(File(name)));
    }
  }
  return SyncDirectory(path_);
}

Status Directory::CheckReadable(const std::string& file, uint64_t bytes, const std::string& consequence,
                                const char* hint) const {
  if (bytes <= max_file_bytes_) return absl::OkStatus();
  return InvalidInput(file,
                      absl::StrCat("would have ", bytes, " bytes, at most ", max_file_bytes_,
                                   " can be read again: ", consequence),
                      hint);
}

Status Directory::SavePass(const Arm& arm, const std::string& answers_text,
                           const std::optional<RequestLog>& requests, bool first_of_role) const {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, EncodeArm(arm));
  std::string answers_file = File(absl::StrCat("answers_", arm.label, ".jsonl"));
  std::string arm_file = File(absl::StrCat("arm_", arm.label, ".json"));
  std::string requests_file = File(absl::StrCat("requests_", arm.label, ".json"));
  const std::string stands =
      absl::StrCat("this pass is not saved", HasArm(arm.label) ? ", the earlier pass stands" : "");
  for (const auto& [file, size] :
       {std::pair(&answers_file, answers_text.size()), std::pair(&arm_file, text.size())})
    POOLMARK_RETURN_IF_ERROR(CheckReadable(
        *file, size, stands, "see what the engine answers, or ask for less (--max-output-tokens, --limit)"));
  // Everything is on disk before anything older goes: a full disk leaves the last complete pass.
  POOLMARK_RETURN_IF_ERROR(WriteSynced(answers_file + ".tmp", answers_text));
  POOLMARK_RETURN_IF_ERROR(WriteSynced(arm_file + ".tmp", text));
  if (requests) {
    POOLMARK_ASSIGN_OR_RETURN(std::string log, EncodeRequests(*requests));
    POOLMARK_RETURN_IF_ERROR(WriteSynced(requests_file + ".tmp", log));
  }
  POOLMARK_RETURN_IF_ERROR(DeleteResults());
  if (first_of_role) POOLMARK_RETURN_IF_ERROR(DeleteRole(arm.role));
  // An older pass of this label must not stand beside the new answers.
  POOLMARK_RETURN_IF_ERROR(Delete(arm_file));
  POOLMARK_RETURN_IF_ERROR(RenameDurably(answers_file + ".tmp", answers_file));
  POOLMARK_RETURN_IF_ERROR(requests ? RenameDurably(requests_file + ".tmp", requests_file)
                                    : Delete(requests_file));
  return RenameDurably(arm_file + ".tmp", arm_file);
}

Result<std::string> Directory::ReadResult(const std::string& name) const {
  const std::string file = File(name);
  if (!FileExists(file)) return NotFound(file, "is missing", "run poolmark quality analyze first");
  return ReadFile(file, max_file_bytes_);
}

Status Directory::SaveResults(const std::string& rows, const std::string& statistics,
                              const std::string& summary) const {
  const std::pair<const char*, const std::string*> files[] = {
      {"rows.jsonl", &rows}, {"statistics.json", &statistics}, {"summary.json", &summary}};
  for (const auto& [name, text] : files)
    POOLMARK_RETURN_IF_ERROR(CheckReadable(File(name), text->size(), "this comparison is not saved",
                                           "run the arms again with shorter answers (--max-output-tokens)"));
  for (const auto& [name, text] : files) POOLMARK_RETURN_IF_ERROR(WriteSynced(File(name) + ".tmp", *text));
  POOLMARK_RETURN_IF_ERROR(Delete(File("summary.json")));
  POOLMARK_RETURN_IF_ERROR(Delete(File("report.html")));  // it shows the older summary
  for (const auto& [name, text] : files)
    POOLMARK_RETURN_IF_ERROR(RenameDurably(File(name) + ".tmp", File(name)));
  return absl::OkStatus();
}

}  // namespace poolmark::quality
