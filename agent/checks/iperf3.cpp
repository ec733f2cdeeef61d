#include "agent/checks/iperf3.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "agent/facts/text.h"
#include "common/base/json.h"

namespace poolmark::agent {
namespace {

double Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

Result<Iperf3Report> ParseIperf3(std::string_view text) {
  JsonLimits limits;
  limits.max_bytes = 8u << 20;
  limits.reject_duplicate_keys = false;
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(Trim(text), "iperf3", limits));
  if (!json.is_object()) return InvalidInput("iperf3", "its report is no JSON object");
  if (const auto error = json.find("error"); error != json.end()) {
    return Unavailable("iperf3",
                       error->is_string() ? error->get<std::string>() : "it failed without saying why");
  }
  const auto end = json.find("end");
  if (end == json.end() || !end->is_object()) return InvalidInput("iperf3", "its report has no 'end'");
  const auto received = end->find("sum_received");
  const auto sent = end->find("sum_sent");
  if (received == end->end() || !received->is_object() || sent == end->end() || !sent->is_object()) {
    return InvalidInput("iperf3", "its report has no sums");
  }
  Iperf3Report report;
  report.received_bits_per_second = Number(*received, "bits_per_second");
  report.sent_bits_per_second = Number(*sent, "bits_per_second");
  report.sent_bytes = Number(*sent, "bytes");
  report.seconds = Number(*received, "seconds");
  const double retransmits = Number(*sent, "retransmits");
  report.retransmits = retransmits > 0 && retransmits < 1e18 ? static_cast<uint64_t>(retransmits) : 0;
  if (const auto streams = end->find("streams"); streams != end->end() && streams->is_array()) {
    report.streams = static_cast<unsigned>(streams->size());
  }
  if (const auto start = json.find("start"); start != json.end() && start->is_object()) {
    const auto version = start->find("version");
    if (version != start->end() && version->is_string()) {
      const std::string words = version->get<std::string>();  // "iperf 3.12"
      report.version = words.substr(words.find_last_of(' ') + 1);
    }
  }
  if (report.received_bits_per_second <= 0) return InvalidInput("iperf3", "the receiver counted nothing");
  return report;
}

}  // namespace poolmark::agent
