#include "common/report/rfc3339.h"

#include <chrono>
#include <cstdio>
#include <string>

namespace poolmark::report {

std::optional<double> ParseRfc3339(std::string_view view) {
  const std::string text(view);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, used = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%lf%n", &year, &month, &day, &hour, &minute, &second,
                  &used) != 6)
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || !(second >= 0) || second >= 61)
    return std::nullopt;
  const std::string zone = text.substr(static_cast<size_t>(used));
  int offset = 0;
  if (zone != "Z") {
    int zone_hour = 0, zone_minute = 0;
    char sign = 0;
    if (zone.size() != 6 || std::sscanf(zone.c_str(), "%c%2d:%2d", &sign, &zone_hour, &zone_minute) != 3 ||
        (sign != '+' && sign != '-'))
      return std::nullopt;
    offset = (zone_hour * 60 + zone_minute) * 60 * (sign == '-' ? -1 : 1);
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second - offset;
}

}  // namespace poolmark::report
