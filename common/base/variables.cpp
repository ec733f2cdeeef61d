#include "common/base/variables.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace poolmark {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsVariable(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool ChangesProgram(std::string_view name) {
  static constexpr std::string_view kBegins[] = {"LD_",   "PYTHON", "PERL5", "RUBY",         "NODE_",
                                                 "JAVA_", "BASH_",  "DYLD_", "MALLOC_TRACE", "GIT_"};
  static constexpr std::string_view kNames[] = {"PATH",
                                                "HOME",
                                                "ENV",
                                                "SHELLOPTS",
                                                "PROMPT_COMMAND",
                                                "IFS",
                                                "GCONV_PATH",
                                                "NLSPATH",
                                                "PERLLIB",
                                                "PERL_MB_OPT",
                                                "OPENSSL_CONF",
                                                "OPENSSL_ENGINES",
                                                "OPENSSL_MODULES",
                                                "GLIBC_TUNABLES",
                                                "LUA_INIT",
                                                "LUA_PATH",
                                                "LUA_CPATH",
                                                "JDK_JAVA_OPTIONS",
                                                "_JAVA_OPTIONS",
                                                "CLASSPATH",
                                                "VIRTUAL_ENV",
                                                "CUDA_INJECTION64_PATH",
                                                "NCCL_NET_PLUGIN",
                                                "POOLMARK_RUN",
                                                "POOLMARK_PROCESS"};
  // Of Python these change no code that runs.
  if (name == "PYTHONHASHSEED" || name == "PYTHONUNBUFFERED") return false;
  return std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return name.starts_with(begin); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace poolmark
