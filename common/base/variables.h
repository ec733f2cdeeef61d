// Environment variables: this program's own, and those that a job's processes may be given.
#pragma once
#include <string>
#include <string_view>

namespace poolmark {

// Of this process; "": it is not set.
std::string Environment(const char* name);

// [A-Za-z_][A-Za-z0-9_]*
bool IsVariable(std::string_view name);

// Variables with which a job could make an allowed program run something else, or lose our marks: what the
// dynamic linker, interpreters, shells and libraries load code by, and where programs are looked for. Agents
// refuse them.
bool ChangesProgram(std::string_view name);

}  // namespace poolmark
