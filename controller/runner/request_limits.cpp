#include "controller/runner/request_limits.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"

namespace poolmark::controller {
namespace {

constexpr size_t kQuoted = 60;  // bytes of a text that is wrong, in its error

std::string Quoted(const std::string& text) {
  const std::string shown = Printable(text.substr(0, kQuoted));
  return absl::StrCat("'", shown, text.size() > kQuoted ? "…'" : "'");
}

void Refuse(Errors* errors, std::string where, std::string message, std::string hint) {
  errors->push_back({absl::StatusCode::kInvalidArgument, "request_limit", std::move(where),
                     std::move(message), std::move(hint)});
}

// "": a path whose last part can be a file's name, in the results directory and wherever they are fetched to.
std::string WrongPath(const std::string& path) {
  const std::string base = path.substr(path.rfind('/') + 1);
  if (path.size() > kMaxPath)
    return absl::StrCat("the path has ", path.size(), " bytes, at most ", kMaxPath, " are allowed");
  if (Printable(path) != path) return "the path holds control characters";
  if (base.empty() || base == "." || base == "..") return "the path's last part is no file name";
  if (base.size() > kMaxName)
    return absl::StrCat("the file's name has ", base.size(), " bytes, at most ", kMaxName, " are allowed");
  // Such names are of files that are being written, and no list of results has them.
  if (base.ends_with(".tmp")) return "the file's name ends in .tmp, as those of unfinished files do";
  return "";
}

void CheckInputs(const v1::SubmitJobRequest& request, Errors* errors) {
  if (static_cast<size_t>(request.inputs_size()) > kMaxInputs) {
    return Refuse(errors, "inputs",
                  absl::StrCat("there are ", request.inputs_size(), ", at most ", kMaxInputs, " are allowed"),
                  "name fewer files in the job");
  }
  std::set<std::string> paths;
  for (const v1::JobInput& input : request.inputs()) {
    const std::string wrong = WrongPath(input.path());
    if (!wrong.empty())
      Refuse(errors, absl::StrCat("input ", Quoted(input.path())), wrong,
             "rename the file, and in the spec that names it");
    if (!paths.insert(input.path()).second)
      Refuse(errors, absl::StrCat("input ", Quoted(input.path())), "it is named twice",
             "send each file once");
  }
}

void CheckLabels(const v1::SubmitJobRequest& request, Errors* errors) {
  if (static_cast<size_t>(request.labels_size()) > kMaxLabels) {
    return Refuse(errors, "labels",
                  absl::StrCat("there are ", request.labels_size(), ", at most ", kMaxLabels, " are allowed"),
                  "leave some out");
  }
  for (const v1::Label& label : request.labels()) {
    const size_t longest = std::max(label.key().size(), label.value().size());
    if (longest > kMaxLabelBytes)
      Refuse(errors, absl::StrCat("label ", Quoted(label.key())),
             absl::StrCat("its ", label.key().size() == longest ? "key" : "value", " has ", longest,
                          " bytes, at most ", kMaxLabelBytes, " are allowed"),
             "shorten it");
  }
}

void CheckSettings(const v1::SubmitJobRequest& request, Errors* errors) {
  if (request.set().size() > kMaxSettings)
    Refuse(
        errors, "set",
        absl::StrCat("there are ", request.set().size(), " settings, at most ", kMaxSettings, " are allowed"),
        "write them into the job file");
  for (const auto& [name, value] : request.set()) {
    if (name.size() + value.size() <= kMaxSettingBytes) continue;
    Refuse(errors, absl::StrCat("set ", Quoted(name)),
           absl::StrCat("it has ", name.size() + value.size(), " bytes, at most ", kMaxSettingBytes,
                        " are allowed"),
           "write it into the job file");
  }
}

}  // namespace

Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() <= kMaxRequestId) return absl::OkStatus();
  return InvalidInput(
      "request_id",
      absl::StrCat("it has ", request_id.size(), " bytes, at most ", kMaxRequestId, " are allowed"),
      "use a UUID");
}

void CheckSubmission(const v1::SubmitJobRequest& request, Errors* errors) {
  if (Status id = CheckRequestId(request.request_id()); !id.ok()) errors->push_back(ErrorOf(id));
  if (request.name().size() > kMaxName)
    Refuse(errors, "name",
           absl::StrCat("it has ", request.name().size(), " bytes, at most ", kMaxName, " are allowed"),
           "shorten it");
  CheckLabels(request, errors);
  CheckSettings(request, errors);
  CheckInputs(request, errors);
}

}  // namespace poolmark::controller
