// SHA-256, lowercase hex. Behind it: OpenSSL's EVP. Not thread-safe per object.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Update(std::string_view bytes);
  // 64 hex; the object is used up.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The first `length` hex digits (at most 64) of SHA-256 of `bytes`.
std::string Sha256Hex(std::string_view bytes, size_t length = 64);
// Of a regular file, also through links, as ReadFile() reads it: what people name often is one (a tool in
// /usr/bin, a file in a Hugging Face cache).
Result<std::string> Sha256OfFile(const std::string& path);

// 16 random bytes as a UUID (version 4).
std::string NewUuid();
// `bytes` random bytes in hex.
std::string RandomHex(size_t bytes);

}  // namespace poolmark
