// The pages of the controller: a shell each, which live.js fills from the JSON beside it, without reloading.
// Everything foreign is escaped here and set as text there. Pure.
#pragma once
#include <string>
#include <string_view>

namespace poolmark::controller {

enum class PageKind { kJobs, kJob, kMachines, kReports };

// `job_id` of kJob.
std::string WebPage(PageKind kind, const std::string& job_id = "");
// "There is no such page", with the same frame.
std::string ErrorPage(int status, const std::string& title, const std::string& text);

// Files the pages load from their own origin: "/assets/app.css", "/assets/theme.js", "/assets/live.js".
// `type` is set to the media type; empty: no such file.
std::string_view WebAsset(std::string_view path, const char** type);

}  // namespace poolmark::controller
