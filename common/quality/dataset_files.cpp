#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/variables.h"
#include "common/quality/dataset.h"

namespace poolmark::quality {
namespace {

struct KnownDataset {
  const char* name;
  const char* repository;
  const char* file;
};
constexpr KnownDataset kKnown[] = {
    {"hotpotqa", "hotpotqa/hotpot_qa", "distractor/validation-00000-of-00001.parquet"},
    {"musique", "dgslibisey/MuSiQue", "musique_ans_v1.0_dev.jsonl"},
};

// Where Hugging Face libraries keep what they downloaded.
std::string HubCache() {
  if (std::string hub = Environment("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (std::string home = Environment("HF_HOME"); !home.empty()) return JoinPath(home, "hub");
  if (std::string cache = Environment("XDG_CACHE_HOME"); !cache.empty())
    return JoinPath(cache, "huggingface/hub");
  return JoinPath(Environment("HOME"), ".cache/huggingface/hub");
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

bool IsParquet(const std::string& path) {
  std::string lower = Lower(path);
  return lower.ends_with(".parquet") || lower.ends_with(".pq");
}

std::string Replaced(std::string text, char from, const std::string& to) {
  std::string out;
  for (char c : text) {
    if (c == from) {
      out += to;
    } else {
      out += c;
    }
  }
  return out;
}

// Snapshots are links into blobs/, and a blob may be gone (pruned, or its download broken off).
bool CanBeRead(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// The snapshot that refs/main names, else the last one that has the file.
std::string InCache(const KnownDataset& known) {
  std::string root = JoinPath(HubCache(), "datasets--" + Replaced(known.repository, '/', "--"));
  std::vector<std::string> commits =
      ListDir(JoinPath(root, "snapshots")).value_or(std::vector<std::string>{});
  if (Result<std::string> main = ReadFile(JoinPath(root, "refs/main"), 4096); main.ok())
    commits.push_back(main->substr(0, main->find('\n')));
  for (auto commit = commits.rbegin(); commit != commits.rend(); ++commit) {
    std::string file = JoinPath(JoinPath(JoinPath(root, "snapshots"), *commit), known.file);
    // A converted copy beside the Parquet file is what we read.
    if (IsParquet(file) && CanBeRead(file + ".jsonl")) return file + ".jsonl";
    if (CanBeRead(file)) return file;
  }
  return "";
}

}  // namespace

bool IsKnownDataset(const std::string& dataset) {
  return std::any_of(std::begin(kKnown), std::end(kKnown),
                     [&](const KnownDataset& known) { return dataset == known.name; });
}

Result<std::string> ResolveDataset(const std::string& dataset) {
  for (const KnownDataset& known : kKnown) {
    if (dataset != known.name) continue;
    std::string file = InCache(known);
    if (!file.empty()) return file;
    return NotFound(absl::StrCat("dataset '", dataset, "'"),
                    absl::StrCat("is not in the local Hugging Face cache ", HubCache()),
                    absl::StrCat("fetch it with: hf download --repo-type dataset ", known.repository, " ",
                                 known.file, " (or give a file)"));
  }
  if (FileExists(dataset)) return dataset;
  return NotFound(absl::StrCat("dataset '", dataset, "'"),
                  "is neither a known name (hotpotqa, musique) nor an existing file");
}

Result<Dataset> ReadDataset(const std::string& path, int64_t limit) {
  if (IsParquet(path)) {
    return InvalidInput(path, "is Parquet, which is not read here",
                        absl::StrCat("convert it first: deploy/quality/parquet-to-jsonl '", path, "' '", path,
                                     ".jsonl' (needs pyarrow)"));
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, uint64_t{4} << 30));
  // The content decides where the name does not: a JSON data set is a list, so an object begins JSON Lines.
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool object = begin != std::string::npos && text[begin] == '{';
  const std::string name = Lower(path);
  return ParseDataset(text, path, name.ends_with(".jsonl") || (object && !name.ends_with(".json")), limit);
}

}  // namespace poolmark::quality
