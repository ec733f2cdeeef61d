// How a stack file is read, between its source files: a process with the places of what can only be judged
// against the rest of the file. Not for use outside this directory. Not thread-safe, like yaml.h.
#pragma once
#include <string>
#include <vector>

#include "common/spec/read.h"
#include "common/spec/stack.h"
#include "common/spec/yaml.h"

namespace poolmark::spec {

// A text whose ${…} the plan fills, or an argv word that does so for each instance of `each`.
struct FilledText {
  Value value;
  std::string text;
  std::string each;  // "": it stands for itself
};

struct ProcessParts {
  ProcessTemplate process;
  Value value;
  std::vector<FilledText> texts;
  std::optional<Value> gpus;
};

// `ok`: whether its role was read, without which nothing can be said of the strategy.
ProcessParts ReadProcess(const Value& value, const Names& names, bool* ok);

// `value` is a text as `exec`, reset and so on need it, or an error that says how it must look.
void CheckPath(const Value& value, const std::string& text);     // "/health"
void CheckRequest(const Value& value, const std::string& text);  // "POST /flush" or "/flush"

// Every ${…} of the file means something in its process: what the plan (controller/stacks/fill.h) would
// refuse on every machine is an error here, once and at its place.
void CheckReferences(const StackSpec& stack, const std::vector<ProcessParts>& processes);

// A parameter's name means nothing else already.
void CheckParamName(const Value& value, const std::string& name);
// Its value is taken as it stands; "" or what is wrong with it.
std::string ParamError(const std::string& value);

}  // namespace poolmark::spec
