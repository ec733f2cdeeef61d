#include "common/report/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace poolmark::report {
namespace {

// Digits after the point that show `significant` digits.
int Decimals(double value, int significant) {
  const double size = std::abs(value);
  return size == 0 ? 0 : std::clamp(significant - 1 - static_cast<int>(std::floor(std::log10(size))), 0, 9);
}

std::string Digits(double value, int decimals) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  std::string out = text;
  // Thousands in groups.
  const size_t point = out.find('.');
  size_t end = point == std::string::npos ? out.size() : point;
  const size_t start = out[0] == '-' ? 1 : 0;
  for (size_t at = end; at > start + 3; at -= 3) out.insert(at - 3, ",");
  return out;
}

// Three significant digits, all digits before the point.
std::string Digits(double value) {
  return Digits(value, Decimals(value, 3));
}

struct Scaled {
  double factor;
  std::string unit;
};

Scaled Scale(double value, std::string_view unit) {
  const double size = std::abs(value);
  if (unit == "s") {
    if (size != 0 && size < 1e-3) return {1e6, "µs"};
    if (size < 1) return {1e3, "ms"};
    return {1, "s"};
  }
  if (unit == "share") return {100, "%"};
  if (unit == "bytes/s" || unit == "bytes") {
    const std::string suffix = unit == "bytes/s" ? "B/s" : "B";
    if (size >= 1e12) return {1e-12, "T" + suffix};
    if (size >= 1e9) return {1e-9, "G" + suffix};
    if (size >= 1e6) return {1e-6, "M" + suffix};
    if (size >= 1e3) return {1e-3, "k" + suffix};
    return {1, suffix};
  }
  if (unit == "J" && size >= 1e3) return {1e-3, "kJ"};
  if (unit == "ratio") return {1, ""};
  return {1, std::string(unit)};
}

std::string With(double value, const Scaled& scaled) {
  return Digits(value * scaled.factor) + (scaled.unit.empty() ? "" : " " + scaled.unit);
}

}  // namespace

std::string FormatValue(double value, std::string_view unit) {
  return With(value, Scale(value, unit));
}

std::string FormatCount(uint64_t count) {
  return Digits(static_cast<double>(count), 0);
}

std::string FormatValue(const Measured<double>& value, std::string_view unit) {
  return value.has_value() ? FormatValue(*value, unit) : "not measured";
}

std::string FormatInterval(const results::SummaryFigure& figure) {
  if (!figure.mean.has_value()) return "not measured";
  const Scaled scaled = Scale(*figure.mean, figure.unit);
  if (!figure.high) return With(*figure.mean, scaled);
  // The interval with two digits, the mean to the same place; at most one place more than the mean alone.
  const double mean = *figure.mean * scaled.factor, half = (*figure.high - *figure.mean) * scaled.factor;
  const int decimals = std::min(half == 0 ? 0 : Decimals(half, 2), Decimals(mean, 3) + 1);
  return Digits(mean, std::max(decimals, half == 0 ? Decimals(mean, 3) : 0)) + " ± " +
         Digits(half, decimals) + (scaled.unit.empty() ? "" : " " + scaled.unit);
}

size_t Width(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return width;
}

std::string Shortened(std::string_view text, size_t columns) {
  if (Width(text) <= columns) return std::string(text);
  size_t at = 0;
  for (size_t kept = 0; at < text.size() && kept + 1 < columns; ++kept) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  }
  return std::string(text.substr(0, at)) + "…";
}

std::string TextTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - Width(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (i == 0 ? row[i] + pad : pad + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace poolmark::report
