#include "common/results/inputs_file.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, JobInputFile>
void Fields(V& visit, S& value) {
  visit("path", value.path);
  visit("sha256", value.sha256);
  visit("size", value.size);
  visit("stored", value.stored);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, InputsFile>
void Fields(V& visit, S& value) {
  visit("job_path", value.job_path);
  visit("name", value.name);
  visit("set", value.set);
  visit("inputs", value.inputs);
}

Result<std::string> Encode(const InputsFile& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<InputsFile> DecodeInputs(std::string_view text, std::string_view where) {
  return DecodeFile<InputsFile>(text, where, kSchemaVersion);
}
Json InputsSchema() {
  return FileSchema<InputsFile>("inputs/inputs.json", kSchemaVersion);
}

}  // namespace poolmark::results
