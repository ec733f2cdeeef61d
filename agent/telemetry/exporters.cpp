#include "agent/telemetry/exporters.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "agent/facts/sockets.h"
#include "agent/facts/tools.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/prom/catalogue.h"

namespace poolmark::agent {
namespace {

// A port that was free a moment ago, on the loopback interface.
Result<uint16_t> FreeLoopbackPort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return FromErrno("", "making a socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  ::close(fd);
  if (!bound) return FromErrno("127.0.0.1", "choosing a port", error);
  return ntohs(address.sin_port);
}

std::vector<std::string> Texts(const YAML::Node& node) {
  std::vector<std::string> texts;
  for (const auto& item : node) texts.push_back(item.Scalar());
  return texts;
}

// Sockets of this process that listen beyond the loopback interface.
std::string Exposed(const std::string& root, int pid) {
  std::set<uint64_t> inodes;
  const auto sockets = ReadSockets(root);
  for (const Socket& socket : sockets) {
    if (socket.listening()) inodes.insert(socket.inode);
  }
  const auto owners = FindOwners(root, inodes);
  for (const Socket& socket : sockets) {
    const auto owner = owners.find(socket.inode);
    if (!socket.listening() || owner == owners.end() || owner->second.pid != pid || socket.local.IsLoopback())
      continue;
    return absl::StrCat(socket.local.ToString(), ":", socket.port);
  }
  return "";
}

}  // namespace

Result<std::vector<ExporterSpec>> ReadExporters(std::string_view yaml, const std::string& where) {
  static const std::set<std::string> kKeys = {"name",    "version",  "sha256",  "argv",   "url",
                                              "dialect", "measures", "instead", "vendors"};
  std::vector<ExporterSpec> specs;
  Errors errors;
  const auto fail = [&](const YAML::Node& node, const std::string& message) {
    errors.push_back({absl::StatusCode::kInvalidArgument, "exporters",
                      absl::StrCat(where, ":", node.Mark().line + 1), message, ""});
  };
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (!root.IsMap() || !root["version"] || root["version"].Scalar() != "1" || !root["exporters"] ||
        !root["exporters"].IsSequence()) {
      return InvalidInput(where, "expected 'version: 1' and a list 'exporters'");
    }
    for (const auto& node : root["exporters"]) {
      if (!node.IsMap()) {
        fail(node, "an exporter must be a mapping");
        continue;
      }
      for (const auto& entry : node) {
        if (kKeys.count(entry.first.Scalar()) == 0)
          fail(entry.first, absl::StrCat("unknown key '", entry.first.Scalar(), "'"));
      }
      ExporterSpec spec;
      const auto text = [&](const char* key, bool required) {
        const YAML::Node value = node[key];
        if (!value && required) fail(node, absl::StrCat("'", key, "' is missing"));
        return value && value.IsScalar() ? value.Scalar() : std::string();
      };
      spec.name = text("name", true);
      spec.version = text("version", true);
      spec.url = text("url", true);
      spec.dialect = text("dialect", true);
      spec.measures = text("measures", true);
      spec.instead = text("instead", true);
      spec.sha256 = Texts(node["sha256"]);
      spec.argv = Texts(node["argv"]);
      spec.vendors = Texts(node["vendors"]);
      for (const std::string& digest : spec.sha256) {
        if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos) {
          fail(node, absl::StrCat("'", digest, "' is no SHA-256 (64 lower-case hex digits)"));
        }
      }
      if (spec.url.rfind("http://127.0.0.1:", 0) != 0 && spec.url.rfind("unix:", 0) != 0) {
        fail(node, absl::StrCat("url '", spec.url, "' is not on the loopback interface"));
      }
      specs.push_back(std::move(spec));
    }
  } catch (const YAML::Exception& exception) {
    return InvalidInput(absl::StrCat(where, ":", exception.mark.line + 1), exception.msg);
  }
  if (!errors.empty()) return ToStatus(errors);
  return specs;
}

Exporter::~Exporter() {
  if (child) child->Stop(std::chrono::seconds(2));
  if (!directory.empty()) (void)RemoveTree(directory);
}

Result<Exporter> StartExporter(const ExporterSpec& spec, const ExporterContext& context) {
  Exporter exporter;
  exporter.spec = spec;
  const auto path = context.spawner == nullptr ? std::nullopt : FindExecutable(spec.name, context.root);
  if (!path) return NotFound(spec.name, "not installed");
  exporter.path = *path;
  POOLMARK_ASSIGN_OR_RETURN(exporter.sha256, Sha256OfFile(*path));
  if (spec.sha256.empty()) {
    return Precondition(spec.name, absl::StrCat("no checksum is pinned (this one has ", exporter.sha256, ")"),
                        "add the SHA-256 of the build you trust to exporters.yaml");
  }
  if (std::find(spec.sha256.begin(), spec.sha256.end(), exporter.sha256) == spec.sha256.end()) {
    return Precondition(spec.name,
                        absl::StrCat("its checksum ", exporter.sha256, " is none of those pinned"));
  }
  const ToolInfo tool = LookUpTool(spec.name, context.spawner, context.root);
  if (prom::PlainVersion(tool.version) != prom::PlainVersion(spec.version)) {
    return Precondition(spec.name,
                        absl::StrCat("it reports version '", tool.version, "', pinned is ", spec.version));
  }

  POOLMARK_ASSIGN_OR_RETURN(const uint16_t port, FreeLoopbackPort());
  const bool socket = spec.url.find("${dir}") != std::string::npos;
  if (socket) {
    POOLMARK_ASSIGN_OR_RETURN(exporter.directory, context.make_directory ? context.make_directory()
                                                                         : MakeTempDir("poolmark-exporter-"));
  }
  const std::vector<std::pair<std::string, std::string>> values = {{"${port}", std::to_string(port)},
                                                                   {"${dir}", exporter.directory}};
  POOLMARK_ASSIGN_OR_RETURN(exporter.url, http::ParseUrl(absl::StrReplaceAll(spec.url, values)));
  Command command{{spec.name}, {}, 64u << 10};
  for (const std::string& word : spec.argv) command.argv.push_back(absl::StrReplaceAll(word, values));
  Spawner* keeper = context.keeper != nullptr ? context.keeper : context.spawner;
  POOLMARK_ASSIGN_OR_RETURN(exporter.child, keeper->Start(command));

  const Nanoseconds deadline = RealClock().Steady() + context.ready_within;
  http::Request request;
  request.url = exporter.url;
  request.timeout = std::chrono::seconds(2);
  for (;;) {
    const auto response = context.client->Send(request);
    if (response.ok() && response->status == 200) break;
    // waiting for its end doubles as the pause between two tries
    if (exporter.child->Wait(std::chrono::milliseconds(50))) {
      return Unavailable(spec.name, Describe(command, exporter.child->Poll()));
    }
    if (RealClock().Steady() > deadline) {
      return Unavailable(spec.name, absl::StrCat("its page did not answer: ",
                                                 response.ok() ? absl::StrCat("status ", response->status)
                                                               : std::string(response.status().message())));
    }
  }
  const std::string exposed = Exposed(context.root, exporter.child->pid());
  if (!exposed.empty()) {
    return Precondition(spec.name,
                        absl::StrCat("it listens on ", exposed, ", not only on the loopback interface"));
  }
  return exporter;
}

}  // namespace poolmark::agent
