#include "common/rpc/audit_arguments.h"

#include <google/protobuf/descriptor.h>

#include <set>

#include "common/base/digest.h"

namespace poolmark::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostBytes = 200;

// What says who or what is meant. A field that is not here is only in the digest.
bool IsWord(const std::string& name) {
  static const std::set<std::string> kWords = {"job_id", "machine", "action",     "reason", "force",
                                               "name",   "id",      "job_path",   "epoch",  "cause",
                                               "role",   "boot_id", "executable", "image",  "no_continue"};
  return kWords.contains(name);
}

void Collect(const Message& message, int depth, std::vector<std::pair<std::string, std::string>>* out) {
  const Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      // A lease and the head of a process specification.
      if (depth == 0 && (field->name() == "lease" || field->name() == "spec"))
        Collect(reflection->GetMessage(message, field), depth + 1, out);
      continue;
    }
    if (!IsWord(field->name())) continue;
    std::string value;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        value = reflection->GetString(message, field).substr(0, kMostBytes);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        value = std::string(reflection->GetEnum(message, field)->name());
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        value = reflection->GetBool(message, field) ? "true" : "false";
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        value = std::to_string(reflection->GetUInt64(message, field));
        break;
      default:
        continue;
    }
    out->emplace_back(field->name(), value);
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> AuditArguments(const Message& request) {
  std::vector<std::pair<std::string, std::string>> arguments;
  Collect(request, 0, &arguments);
  arguments.emplace_back("sha256", Sha256Hex(request.SerializeAsString()));
  return arguments;
}

}  // namespace poolmark::rpc
