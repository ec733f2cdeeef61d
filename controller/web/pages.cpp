#include "controller/web/pages.h"

#include "absl/strings/str_cat.h"
#include "common/base/html.h"
#include "common/base/version.h"
#include "common/report/assets.h"
#include "common/report/sections.h"

// The assembler reads the files, as in common/report/assets.cpp.
#define POOLMARK_EMBED(name, file)                                                  \
  asm(".section .rodata\n.global poolmark_web_" name "_begin\npoolmark_web_" name   \
      "_begin:\n"                                                                   \
      ".incbin \"" file "\"\n.global poolmark_web_" name "_end\npoolmark_web_" name \
      "_end:\n.byte 0\n"                                                            \
      ".previous\n")

POOLMARK_EMBED("app_css", POOLMARK_WEB_DIR "/app.css");
POOLMARK_EMBED("live_js", POOLMARK_WEB_DIR "/live.js");

extern "C" {
extern const char poolmark_web_app_css_begin[], poolmark_web_app_css_end[];
extern const char poolmark_web_live_js_begin[], poolmark_web_live_js_end[];
}

namespace poolmark::controller {
namespace {

std::string Link(const char* address, const char* text, bool here) {
  return absl::StrCat("<li><a href=\"", address, "\"", here ? " aria-current=\"page\"" : "", ">", text,
                      "</a></li>");
}

std::string Frame(const std::string& title, const std::string& here, const std::string& body,
                  const std::string& attributes) {
  std::string page = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><title>",
      EscapeHtml(title),
      "</title><link rel=\"stylesheet\" href=\"/assets/app.css\"><script src=\"/assets/theme.js\"></script>"
      "<script src=\"/assets/live.js\" defer></script></head>\n<body",
      attributes,
      "><a class=\"skip\" href=\"#main\">To the content</a>\n<nav aria-label=\"Pages\"><div "
      "class=\"bar\"><ul>");
  absl::StrAppend(&page, Link("/", "Jobs", here == "jobs"), Link("/machines", "Machines", here == "machines"),
                  Link("/reports", "Reports", here == "reports"), "</ul>", report::kThemeChoice,
                  "</div></nav>\n<p id=\"trouble\" class=\"box bad\" role=\"alert\" hidden></p>\n", body,
                  "<footer>Poolmark ", EscapeHtml(std::string(Version())),
                  ", read-only and on loopback. <span id=\"fresh\"></span></footer></body></html>\n");
  return page;
}

std::string Body(const std::string& title, const std::string& lead) {
  return absl::StrCat(
      "<header><h1 id=\"title\">", EscapeHtml(title), "</h1><p id=\"lead\" class=\"soft\">", EscapeHtml(lead),
      "</p></header><main id=\"main\" aria-busy=\"true\"><noscript><p class=\"box\">"
      "This page is filled by a script of its own. Without it: <code>poolmark jobs</code>, "
      "<code>poolmark status JOB</code>, <code>poolmark machines</code>, or the JSON below "
      "<a href=\"/api/jobs\">/api/jobs</a> and <a href=\"/api/machines\">/api/machines</a>.</p>"
      "</noscript></main>\n");
}

}  // namespace

std::string WebPage(PageKind kind, const std::string& job_id) {
  switch (kind) {
    case PageKind::kJobs:
      return Frame("Poolmark jobs", "jobs", Body("Jobs", "Newest first."), " data-page=\"jobs\"");
    case PageKind::kJob:
      return Frame(absl::StrCat("Poolmark job ", job_id), "", Body(absl::StrCat("Job ", job_id), ""),
                   absl::StrCat(" data-page=\"job\" data-job=\"", EscapeHtml(job_id), "\""));
    case PageKind::kMachines:
      return Frame("Poolmark machines", "machines",
                   Body("Machines", "What each agent said of its machine, and who holds it."),
                   " data-page=\"machines\"");
    case PageKind::kReports:
      return Frame("Poolmark reports", "reports",
                   Body("Reports", "Finished jobs; each report is one page that opens offline, too."),
                   " data-page=\"reports\"");
  }
  return "";
}

std::string ErrorPage(int status, const std::string& title, const std::string& text) {
  return Frame(title, "",
               absl::StrCat("<header><h1>", EscapeHtml(title), "</h1><p class=\"soft\">", status,
                            "</p></header><main id=\"main\"><p>", EscapeHtml(text), "</p></main>\n"),
               "");
}

std::string_view WebAsset(std::string_view path, const char** type) {
  static const std::string css =
      std::string(report::BaseCss())
          .append(poolmark_web_app_css_begin,
                  static_cast<size_t>(poolmark_web_app_css_end - poolmark_web_app_css_begin));
  *type = "text/css; charset=utf-8";
  if (path == "/assets/app.css") return css;
  *type = "text/javascript; charset=utf-8";
  if (path == "/assets/theme.js") return report::ThemeJs();
  if (path == "/assets/live.js")
    return {poolmark_web_live_js_begin,
            static_cast<size_t>(poolmark_web_live_js_end - poolmark_web_live_js_begin)};
  return "";
}

}  // namespace poolmark::controller
