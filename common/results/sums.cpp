#include "common/results/sums.h"

#include <algorithm>
#include <map>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/results/layout.h"

namespace poolmark::results {
namespace {

Result<std::vector<std::string>> Files(const std::string& directory) {
  POOLMARK_ASSIGN_OR_RETURN(auto files, ListTree(directory));
  std::erase_if(files, [](const std::string& path) { return path == kSumsFile || path.ends_with(".tmp"); });
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Status WriteSums(const std::string& directory) {
  POOLMARK_ASSIGN_OR_RETURN(const auto files, Files(directory));
  std::string text;
  for (const std::string& path : files) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string sum, Sha256OfFile(JoinPath(directory, path)));
    text += sum + "  " + path + "\n";
  }
  return AtomicWriteFile(JoinPath(directory, kSumsFile), text);
}

Result<std::vector<SumProblem>> CheckSums(const std::string& directory) {
  const std::string list = JoinPath(directory, kSumsFile);
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(list));
  std::map<std::string, std::string> wanted;
  size_t at = 0, line = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string entry = text.substr(at, end - at);
    at = end + 1;
    ++line;
    const bool good = entry.size() > 66 && entry.compare(64, 2, "  ") == 0 &&
                      entry.find_first_not_of("0123456789abcdef") == 64;
    if (!good) return InvalidInput(list + ":" + std::to_string(line), "is no line of SHA-256 sums");
    wanted[entry.substr(66)] = entry.substr(0, 64);
  }
  std::vector<SumProblem> problems;
  POOLMARK_ASSIGN_OR_RETURN(const auto files, Files(directory));
  for (const std::string& path : files) {
    const auto sum = wanted.find(path);
    if (sum == wanted.end()) {
      problems.push_back({path, "not listed"});
      continue;
    }
    POOLMARK_ASSIGN_OR_RETURN(const std::string found, Sha256OfFile(JoinPath(directory, path)));
    if (found != sum->second) problems.push_back({path, "differs"});
    wanted.erase(sum);
  }
  for (const auto& [path, sum] : wanted) problems.push_back({path, "missing"});
  return problems;
}

}  // namespace poolmark::results
