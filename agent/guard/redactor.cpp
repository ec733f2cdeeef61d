#include "agent/guard/redactor.h"

#include <algorithm>

namespace poolmark::guard {

Redactor::Redactor(std::vector<std::string> secrets) : secrets_(std::move(secrets)) {
  std::erase_if(secrets_, [](const std::string& secret) { return secret.empty(); });
  std::sort(secrets_.begin(), secrets_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

void Redactor::Add(const std::string& secret) {
  if (secret.empty() || std::find(secrets_.begin(), secrets_.end(), secret) != secrets_.end()) return;
  auto shorter = std::find_if(secrets_.begin(), secrets_.end(),
                              [&](const std::string& known) { return known.size() < secret.size(); });
  secrets_.insert(shorter, secret);
}

size_t Redactor::HeldBack(std::string_view text) const {
  size_t most = 0;
  for (const std::string& secret : secrets_) {
    for (size_t length = std::min(secret.size() - 1, text.size()); length > most; --length) {
      if (text.substr(text.size() - length) == std::string_view(secret).substr(0, length)) most = length;
    }
  }
  return most;
}

std::string Redactor::Pass(std::string_view piece) {
  std::string text = std::move(held_);
  held_.clear();
  text += piece;
  for (const std::string& secret : secrets_) {
    for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), "[redacted]");
      at += 10;
    }
  }
  size_t keep = HeldBack(text);
  held_ = text.substr(text.size() - keep);
  text.resize(text.size() - keep);
  return text;
}

std::string Redactor::Finish() {
  return std::move(held_);
}

}  // namespace poolmark::guard
