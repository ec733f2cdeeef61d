// The tokenizer in this process: a Hugging Face tokenizer.json with the chat template of
// tokenizer_config.json, through the `tokenizers` and `minijinja` crates (rust/). Only where the build has
// POOLMARK_TOKENIZER; elsewhere OpenLocal() says so.
#pragma once
#include <memory>
#include <string>

#include "common/tokenizer/tokenizer.h"

namespace poolmark::tokenizer {

// The files that OpenLocal(path) needs: tokenizer.json and the tokenizer_config.json beside it.
struct LocalFiles {
  std::string tokenizer, config;
};
LocalFiles LocalFilesOf(const std::string& path);
// They are on this machine; the error names the one that is not. For all builds.
Status CheckLocalFiles(const std::string& path);

// Whether this build can open files.
bool LocalAvailable();

// `path`: a tokenizer.json or the directory that holds it. The chat template comes from chat_template.jinja
// or tokenizer_config.json beside it. Texts count whole whatever truncation or padding the file keeps; a
// template's strftime_now() tells this machine's local time when the file was opened.
Result<std::unique_ptr<Tokenizer>> OpenLocal(const std::string& path);

}  // namespace poolmark::tokenizer
