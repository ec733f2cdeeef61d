// The commented example files that `poolmark init` writes. Constant texts.
#pragma once

namespace poolmark::cli {

struct ExampleFile {
  const char* name;
  const char* text;
};
inline constexpr int kExampleFiles = 3;
extern const ExampleFile kExamples[kExampleFiles];

}  // namespace poolmark::cli
