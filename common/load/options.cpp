#include "common/load/options.h"

#include <algorithm>
#include <cmath>

#include "common/base/json.h"

namespace poolmark::load {
namespace {

Status CheckHeaderName(std::string_view name) {
  const std::string where = "header '" + ValidUtf8(name.substr(0, 60)) + "'";
  // RFC 9110, 5.6.2: a token.
  const bool token = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
  if (!token)
    return InvalidInput(where, "its name holds something else than letters, digits, '-' and '_'",
                        "write 'Name: value', without spaces in the name");
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const std::string_view own : {"host", "content-length", "content-type", "transfer-encoding",
                                     "connection", "accept", "x-request-id"}) {
    if (lower == own)
      return InvalidInput(where, "the program sets it itself",
                          own == "x-request-id" ? "--request-id-prefix begins it" : "leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckHeader(std::string_view name, std::string_view value) {
  POOLMARK_RETURN_IF_ERROR(CheckHeaderName(name));
  // RFC 9110, 5.5: a line end would begin another header, or another request.
  const bool clean = std::all_of(value.begin(), value.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
  if (!clean)
    return InvalidInput("header '" + std::string(name.substr(0, 60)) + "'",
                        "its value holds a line end or another control character",
                        "write 'Name: value' on one line");
  return absl::OkStatus();
}

bool AnyHttps(const std::vector<std::string>& urls) {
  constexpr std::string_view kHttps = "https://";
  return std::any_of(urls.begin(), urls.end(), [&](const std::string& url) {
    return url.size() >= kHttps.size() &&
           std::equal(kHttps.begin(), kHttps.end(), url.begin(),
                      [](char lower, char c) { return (c >= 'A' && c <= 'Z' ? c + 32 : c) == lower; });
  });
}

Errors OptionErrors(const LoadOptions& o) {
  Errors errors;
  const auto bad = [&errors](std::string message, std::string hint = "") {
    errors.push_back(
        {absl::StatusCode::kInvalidArgument, "bad_option", "load", std::move(message), std::move(hint)});
  };
  if (o.urls.empty()) bad("no URL", "give --url");
  if (o.mode == LoadOptions::Mode::kClosed && (o.users < 1 || o.users > 100'000)) {
    bad("concurrency " + std::to_string(o.users) + " is not between 1 and 100000");
  }
  if (o.mode == LoadOptions::Mode::kRate && o.arrivals.steps.empty()) bad("no rate");
  if (o.arrivals.kind == ArrivalOptions::Kind::kGamma && !(o.arrivals.cv >= 0.01 && o.arrivals.cv <= 100))
    bad("the arrivals' cv is not between 0.01 and 100", "for even gaps use constant arrivals");
  const bool plain = std::all_of(o.request_id_prefix.begin(), o.request_id_prefix.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  if (!plain || o.request_id_prefix.size() > 100)
    bad("the prefix of request ids holds something else than up to 100 letters, digits, '-', '_' and '.'");
  if (!(o.speedup > 0)) bad("the speed-up is not above 0");
  if (!(o.think_scale >= 0)) bad("the think time's scale is below 0");
  if (o.duration.has_value() && *o.duration <= Nanoseconds(0)) bad("the load's duration is not above 0");
  if (o.duration.has_value() && o.warm_up >= *o.duration) {
    bad("the warm-up is not shorter than the load, so that nothing would be measured",
        "lower --warm-up or raise --duration");
  }
  if (o.warm_up < Nanoseconds(0) || o.drain < Nanoseconds(0)) bad("warm-up and drain are not below 0");
  if (o.deadline <= Nanoseconds(0) || o.stall <= Nanoseconds(0) || o.connect_timeout <= Nanoseconds(0)) {
    bad("deadline, stall limit and connect timeout are above 0");
  }
  if (o.retry.attempts < 1 || o.retry.attempts > 100) bad("attempts are not between 1 and 100");
  if (o.loops < 0 || o.loops > 256) bad("loops are not between 1 and 256");
  if (o.workers < 1 || o.worker >= o.workers)
    bad("worker " + std::to_string(o.worker) + " of " + std::to_string(o.workers) + " does not exist",
        "count from 0");
  if (o.max_requests > 0 && o.workers > 1)
    bad("a limit of requests cannot be shared by several machines",
        "limit the load by its duration or by the sessions of its workload");
  if (o.mode == LoadOptions::Mode::kClosed && o.workers > 1) {
    if (o.users < o.workers)
      bad(std::to_string(o.users) + " users cannot be shared by " + std::to_string(o.workers) +
              " workers: the sessions of those without a user would be sent by nobody",
          "use at most as many workers as users");
    if (o.warm_up_requests > 0 || o.warm_up_sessions > 0)
      bad("a warm-up by requests or sessions cannot be shared by several workers: each would count its own",
          "give the warm-up as a time");
  }
  return errors;
}

Status ValidateOptions(const LoadOptions& options) {
  const Errors errors = OptionErrors(options);
  return errors.empty() ? absl::OkStatus() : ToStatus(errors);
}

Status CheckConnections(const LoadOptions& o, int processes) {
  if (o.mode != LoadOptions::Mode::kClosed || o.max_connections == 0) return absl::OkStatus();
  // The first process has as many users as any.
  const auto loops = static_cast<uint32_t>(o.loops);
  const uint32_t parts = o.workers * loops * static_cast<uint32_t>(processes);
  uint32_t users = 0;
  for (uint32_t loop = 0; loop < loops; ++loop) users += ShareOf(o.users, o.worker + o.workers * loop, parts);
  if (users <= o.max_connections) return absl::OkStatus();
  return InvalidInput("load",
                      "concurrency " + std::to_string(o.users) + " cannot be held: " + std::to_string(users) +
                          " users of one process share " + std::to_string(o.max_connections) + " connections",
                      "raise --max-connections to " + std::to_string(users) + " or lower the concurrency");
}

int DefaultLoops(const LoadOptions& o, int cores, int processes) {
  constexpr double kUsers = 1'000, kRequestsPerSecond = 2'000;
  const double parts = std::max(1.0, static_cast<double>(o.workers) * processes);
  double wanted = 1;
  if (o.mode == LoadOptions::Mode::kClosed) wanted = o.users / parts / kUsers;
  if (o.mode == LoadOptions::Mode::kRate) {
    for (const RateStep& step : o.arrivals.steps)
      wanted = std::max(wanted, std::max(step.from, step.to) / parts / kRequestsPerSecond);
  }
  const double most = std::max(1, cores / std::max(1, processes));
  return static_cast<int>(std::ceil(std::clamp(wanted, 1.0, most)));
}

}  // namespace poolmark::load
