#include "common/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/secrets.h"
#include "common/base/time_format.h"

namespace poolmark {
namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error"};

std::atomic<int> minimum_level{static_cast<int>(LogLevel::kInfo)};

constexpr std::string_view kRedacted = "[redacted]";
constexpr size_t kShortestInLog = 4;
constexpr size_t kShortestInAnswers = 8;

struct Redactions {
  std::mutex mutex;                  // guards `secrets`
  std::vector<std::string> secrets;  // longest first
};

Redactions& TheRedactions() {
  static Redactions redactions;
  return redactions;
}

bool WriteJson() {
  static const bool json = [] {
    const char* wish = std::getenv("POOLMARK_LOG");
    if (wish != nullptr) return std::strcmp(wish, "json") == 0;
    return isatty(STDERR_FILENO) == 0;
  }();
  return json;
}

// A JSON string without quotes; control characters and quotes escaped, bytes that are no UTF-8 replaced.
std::string Escape(std::string_view text) {
  std::string out;
  for (char c : ValidUtf8(text)) {
    unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", u);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out;
}

std::string Redact(std::string text, size_t shortest) {
  Redactions& redactions = TheRedactions();
  std::lock_guard lock(redactions.mutex);
  for (const std::string& secret : redactions.secrets) {
    if (secret.size() < shortest) continue;
    for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), kRedacted);
      at += kRedacted.size();  // a secret may be part of the word itself
    }
  }
  return text;
}

}  // namespace

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (static_cast<int>(level) < minimum_level.load(std::memory_order_relaxed)) return;
  std::string_view name = kLevelNames[static_cast<int>(level)];
  std::string line;
  if (WriteJson()) {
    line = "{\"ts\":\"" + IsoUtc(RealClock().Wall()) + "\",\"level\":\"" + std::string(name) +
           "\",\"event\":\"" + Escape(event) + "\"";
    for (const LogField& field : fields) {
      line += ",\"" + Escape(field.key) + "\":\"" + Escape(Redact(field.value, kShortestInLog)) + "\"";
    }
    line += "}\n";
  } else {
    line = IsoUtc(RealClock().Wall()) + " " + std::string(name) + " " + Escape(event);
    for (const LogField& field : fields)
      line += " " + Escape(field.key) + "=\"" + Escape(Redact(field.value, kShortestInLog)) + "\"";
    line += "\n";
  }
  // One write a line: lines of several threads and processes do not mix.
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

bool SetLogLevel(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kLevelNames[i]) {
      minimum_level = i;
      return true;
    }
  }
  return false;
}

void AddLogRedaction(std::string secret) {
  if (secret.size() < kShortestInLog) return;
  // As JSON spells it, where that is something else.
  auto quoted = DumpJson(Json(secret));
  Redactions& redactions = TheRedactions();
  std::lock_guard lock(redactions.mutex);
  auto add = [&](std::string text) {
    auto& all = redactions.secrets;
    if (std::find(all.begin(), all.end(), text) != all.end()) return;
    all.push_back(std::move(text));
    // The longest first: one secret may be part of another.
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
  };
  if (quoted.ok() && quoted->size() > 2) add(quoted->substr(1, quoted->size() - 2));
  add(std::move(secret));
}

std::string Redacted(std::string text) {
  return Redact(std::move(text), kShortestInAnswers);
}

}  // namespace poolmark
