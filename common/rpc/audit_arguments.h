// What an audited request was about, for the audit log: its plain words (job, machine, action, process),
// never tokens, keys, environments or contents. Pure.
#pragma once
#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

namespace poolmark::rpc {

// Name and value of each listed field that is set, and "sha256" over the whole request.
std::vector<std::pair<std::string, std::string>> AuditArguments(const google::protobuf::Message& request);

}  // namespace poolmark::rpc
