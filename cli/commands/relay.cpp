#include "cli/commands/relay.h"

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/output/exit_code.h"
#include "cli/output/interrupt.h"
#include "cli/output/table.h"
#include "common/base/files.h"
#include "common/relay/relay.h"

namespace poolmark::cli {
namespace {

constexpr uint64_t kMaxFile = 64u << 10;
constexpr uint64_t kLoggedRefusals = 1000;  // a scan from the internet must not fill the disk

struct RelayFlags {
  bool server = false;
  std::string listen, to, key, certificate, accept;
};

// "10.0.0.1:6379" or "[::1]:6379".
Result<std::pair<std::string, uint16_t>> HostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port > 65535)
    return InvalidInput(text, "is no address", "write HOST:PORT with a numeric host");
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return std::pair(host, static_cast<uint16_t>(port));
}

Result<int> RunRelay(const RelayFlags& flags) {
  Interrupt interrupt;
  relay::Options options;
  options.server = flags.server;
  POOLMARK_ASSIGN_OR_RETURN(auto listen, HostPort(flags.listen));
  POOLMARK_ASSIGN_OR_RETURN(auto to, HostPort(flags.to));
  std::tie(options.listen_host, options.listen_port) = listen;
  std::tie(options.target_host, options.target_port) = to;
  POOLMARK_ASSIGN_OR_RETURN(options.private_pem, ReadFile(flags.key, kMaxFile));
  POOLMARK_ASSIGN_OR_RETURN(options.certificate_pem, ReadFile(flags.certificate, kMaxFile));
  POOLMARK_ASSIGN_OR_RETURN(std::string pins, ReadFile(flags.accept, kMaxFile));
  for (absl::string_view pin : absl::StrSplit(pins, absl::ByAnyChar(" \n"), absl::SkipEmpty()))
    options.accept.insert(std::string(pin));
  std::mutex mutex;  // stdout, told
  uint64_t told = 0;
  options.log = [&](const std::string& line) {
    std::lock_guard lock(mutex);
    if (++told <= kLoggedRefusals) WriteOut(Printable(line) + "\n");
  };
  POOLMARK_ASSIGN_OR_RETURN(auto relay, relay::Relay::Start(std::move(options)));
  {
    std::lock_guard lock(mutex);
    WriteOut(absl::StrCat("listening ", listen.first, ":", relay->port(), "\n"));
  }
  std::mutex waiting;
  std::condition_variable_any ended;
  std::unique_lock lock(waiting);
  ended.wait(lock, interrupt.token(), [] { return false; });
  const relay::Totals totals = relay->totals();
  relay.reset();
  WriteOut(absl::StrCat("connections ", totals.connections, ", refused ", totals.refused,
                        ", bytes to the store ", totals.bytes_to_target, ", from it ",
                        totals.bytes_from_target, "\n"));
  return kExitOk;
}

}  // namespace

void AddRelay(CLI::App& app, int& exit_code) {
  CLI::App* relay = app.add_subcommand(
      "relay", "One end of the TLS link to a shared store on a public address; jobs start it (relay: store)");
  relay->require_subcommand(1);
  for (const auto& [name, description] :
       {std::pair{"server",
                  "Before the store: TLS comes in, from the keys it accepts, and plain bytes go out"},
        std::pair{"client",
                  "On the other machines: plain bytes come in and TLS goes out, to the key it accepts"}}) {
    auto flags = std::make_shared<RelayFlags>();
    flags->server = std::string(name) == "server";
    CLI::App* command = relay->add_subcommand(name, description);
    command->add_option("--listen", flags->listen, "HOST:PORT to listen on, numeric")->required();
    command->add_option("--to", flags->to, "HOST:PORT to connect to, numeric")->required();
    command->add_option("--key", flags->key, "PEM file with its private key")->required();
    command->add_option("--certificate", flags->certificate, "PEM file with its certificate")->required();
    command
        ->add_option("--accept", flags->accept,
                     "File with the SHA-256 of each public key it accepts, in hex, one a line")
        ->required();
    command->callback([flags, &exit_code] {
      const auto result = RunRelay(*flags);
      if (!result.ok()) WriteErr(ErrorText({ErrorOf(result.status())}, Format::kTable));
      exit_code = result.ok() ? *result : ExitCodeOf(result.status());
    });
  }
}

}  // namespace poolmark::cli
