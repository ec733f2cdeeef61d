// What the clients of container engines (docker, podman) say and how they are asked, apart from asking: pure,
// so that it is tested on recorded answers. Thread-safe.
#pragma once
#include <string>
#include <vector>

namespace poolmark::guard {

// What an engine says of the container of a name.
enum class Presence {
  kOurs,      // there, with this run's label
  kAnothers,  // there, without it
  kAbsent,    // the engine answered that it knows none of that name
  kUnknown,   // no answer that proves any of the others: refused, not reached, out of time
};

// The client's words that ask for the run label of a container.
std::vector<std::string> InspectCommand(const std::string& client, const std::string& container);
// `out` is the label alone: warnings go to the other stream, `all` holds both. Only an engine that says that
// there is no such container proves its absence; "no such file" of a socket or a store does not.
Presence ReadInspect(int exit_code, const std::string& out, const std::string& all,
                     const std::string& container, const std::string& run);

// "NAME=value" of each variable of this process that decides which engine a client asks and as whom. Every
// call for a container gets the same ones, the launch too: else the tear-down would look where nothing was
// started.
std::vector<std::string> ClientVariables();
// `env` with these in place of its own.
std::vector<std::string> WithClientVariables(const std::vector<std::string>& env);

}  // namespace poolmark::guard
