#include "agent/checks/perftest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/facts/text.h"

namespace poolmark::agent {
namespace {

// Column names of a header line: "#bytes", "#iterations", "BW peak[Gb/sec]", "99% percentile[usec]". A name
// ends with its unit in brackets, or at a blank when it begins with "#".
std::vector<std::string> Columns(std::string_view header) {
  std::vector<std::string> columns;
  size_t at = 0;
  while (at < header.size()) {
    while (at < header.size() && (header[at] == ' ' || header[at] == '\t')) ++at;
    if (at >= header.size()) break;
    size_t end;
    if (header[at] == '#') {
      end = header.find_first_of(" \t", at);
    } else {
      end = header.find(']', at);
      if (end != std::string_view::npos) ++end;
    }
    end = std::min(end, header.size());
    columns.emplace_back(Trim(header.substr(at, end - at)));
    at = end;
  }
  return columns;
}

// The last line of numbers below the last header, by column name.
Result<std::map<std::string, double>> LastRow(std::string_view text, const std::string& tool) {
  std::vector<std::string> columns;
  std::optional<std::map<std::string, double>> row;
  std::string complaint;
  for (std::string_view line : Lines(text)) {
    const std::string_view trimmed = Trim(line);
    if (trimmed.substr(0, 6) == "#bytes") {
      columns = Columns(trimmed);
      continue;
    }
    const auto fields = Fields(trimmed);
    if (columns.empty() || fields.empty() || !ToUint(fields[0])) {
      if (complaint.empty() && columns.empty() && !trimmed.empty() && trimmed.front() != '-')
        complaint = std::string(trimmed);
      continue;
    }
    if (fields.size() < columns.size()) continue;
    std::map<std::string, double> values;
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto value = ToDouble(fields[i]);
      if (!value || *value < 0)
        return InvalidInput(
            tool, absl::StrCat("malformed value '", std::string(fields[i]), "' under ", columns[i]));
      values[columns[i]] = *value;
    }
    row = std::move(values);
  }
  if (row) return *row;
  return InvalidInput(tool, absl::StrCat("its output has no results", complaint.empty() ? "" : ": ",
                                         complaint.substr(0, 200)));
}

uint64_t Count(const std::map<std::string, double>& row, const char* column) {
  const auto found = row.find(column);
  return found == row.end() ? 0 : ToCount(found->second).value_or(0);
}

}  // namespace

Result<WriteBandwidth> ParseWriteBandwidth(std::string_view text) {
  POOLMARK_ASSIGN_OR_RETURN(const auto row, LastRow(text, "ib_write_bw"));
  WriteBandwidth result;
  result.message_bytes = Count(row, "#bytes");
  result.iterations = Count(row, "#iterations");
  if (const auto gigabits = row.find("BW average[Gb/sec]"); gigabits != row.end()) {
    result.average_bits_per_second = gigabits->second * 1e9;
  } else if (const auto mebibytes = row.find("BW average[MiB/sec]"); mebibytes != row.end()) {
    result.average_bits_per_second = mebibytes->second * 1048576 * 8;
  } else if (const auto megabytes = row.find("BW average[MB/sec]"); megabytes != row.end()) {
    result.average_bits_per_second =
        megabytes->second * 1048576 * 8;  // older releases print binary megabytes so
  }
  if (result.average_bits_per_second <= 0 || !std::isfinite(result.average_bits_per_second))
    return InvalidInput("ib_write_bw", "it reports no average bandwidth");
  return result;
}

Result<WriteLatency> ParseWriteLatency(std::string_view text) {
  POOLMARK_ASSIGN_OR_RETURN(const auto row, LastRow(text, "ib_write_lat"));
  const auto typical = row.find("t_typical[usec]");
  const auto p99 = row.find("99% percentile[usec]");
  if (typical == row.end() || p99 == row.end()) {
    return InvalidInput("ib_write_lat", "it reports no median or no 99th percentile",
                        "run it by iterations, not by duration");
  }
  WriteLatency result;
  result.message_bytes = Count(row, "#bytes");
  result.iterations = Count(row, "#iterations");
  result.typical_us = typical->second;
  result.p99_us = p99->second;
  if (result.typical_us <= 0) return InvalidInput("ib_write_lat", "it reports no latency");
  return result;
}

}  // namespace poolmark::agent
