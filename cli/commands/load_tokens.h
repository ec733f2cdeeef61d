// Who counts prompt tokens for a load, so that text prompts have exact lengths (decision M23): an engine's
// tokenize endpoint, or a tokenizer.json where this build has the local tokenizer. No CLI11 here.
#pragma once
#include <memory>
#include <string>

#include "common/http/client.h"
#include "common/workload/tokens.h"

namespace poolmark::cli {

struct TokenCounting {
  std::string tokenize_url;    // base URL of an engine that counts; "": none
  std::string tokenizer_file;  // a tokenizer.json or its directory; "": none
  std::string model;
  http::Headers headers;  // for the endpoint: authorization and such
  http::TlsOptions tls;
};

struct Counter {
  std::unique_ptr<workload::TokenCounter> tokens;  // null: nobody counts
  std::string name;                                // "http://127.0.0.1:8000/tokenize", "the file …"
};

// Refuses both at once, and a file where the build has no local tokenizer.
Result<Counter> OpenCounter(const TokenCounting& how);

}  // namespace poolmark::cli
