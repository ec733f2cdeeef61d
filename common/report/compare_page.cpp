// The comparison of jobs as a page.
#include <algorithm>
#include <map>
#include <set>

#include "common/report/charts.h"
#include "common/report/compare.h"
#include "common/report/forest.h"
#include "common/report/format.h"
#include "common/report/headline.h"
#include "common/report/html.h"
#include "common/report/sections.h"
#include "common/report/workloads.h"

namespace poolmark::report {
namespace {

// Where every directory lies alike, the last part of its path tells them apart.
std::string ShortPath(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = path.rfind('/', end);
  return path.substr(
      slash == std::string::npos ? 0 : slash + 1,
      end == std::string::npos ? std::string::npos : end - (slash == std::string::npos ? 0 : slash + 1) + 1);
}

// Jobs are called A, B, C … on the page: their ids are long and much alike.
std::string JobLetter(size_t job) {
  return job < 26 ? std::string(1, static_cast<char>('A' + job)) : "J" + std::to_string(job + 1);
}

std::string Jobs(const JobComparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < comparison.jobs.size(); ++i) {
    const ComparedJob& job = comparison.jobs[i];
    std::set<std::string> stacks;
    size_t valid = 0;
    bool simulated = false;
    for (const auto& point : job.points) {
      stacks.insert(point.point.stack);
      valid += point.valid;
      simulated = simulated || point.simulated;
    }
    std::string names;
    for (const auto& stack : stacks) names += (names.empty() ? "" : ", ") + stack;
    rows.push_back(
        {JobLetter(i) + (i == 0 ? " <small>the first</small>" : ""),
         EscapeHtml(job.job_id) + "<br><small>" + EscapeHtml(ShortPath(job.directory)) + "</small>",
         EscapeHtml(job.started.substr(0, 19)),
         Badge(job.state, job.state == "SUCCEEDED" ? "good" : "bad") + " " +
             Badge(job.publishable ? "publishable" : "not publishable", job.publishable ? "good" : "warn") +
             (simulated ? " " + Badge("simulated", "warn") : ""),
         EscapeHtml(names), std::to_string(valid) + " of " + std::to_string(job.points.size()),
         EscapeHtml(job.machines), EscapeHtml(job.engines), EscapeHtml(job.poolmark_version)});
  }
  return Table("Jobs",
               {"", "Job", "Started", "State", "Stacks", "Valid points", "Machines", "Engines", "Poolmark"},
               rows);
}

// What the verdicts say nothing of, to stand beside them.
std::vector<std::string> MissingPoints(const JobComparison& comparison) {
  std::vector<std::string> out;
  for (const auto& one : comparison.unlike) {
    if (one.what != kTestPoints) continue;
    out.push_back("Test points without a counterpart are not compared. In the first only: " + one.first +
                  "; in " + ShortPath(one.directory) + " only: " + one.other + ".");
  }
  return out;
}

std::string DifferenceTable(const JobComparison& comparison) {
  if (comparison.unlike.empty()) return "<p>Nothing that was recorded.</p>";
  std::string out;
  if (comparison.refused())
    out +=
        "<div class=\"box bad\"><p><strong>The results cannot be compared</strong></p><p>What is marked "
        "below must "
        "be the same in every job, or the change would not be one of the stack.</p></div>";
  std::vector<std::vector<std::string>> rows;
  for (const bool refuses : {true, false}) {
    for (const auto& one : comparison.unlike) {
      if (one.refuses != refuses) continue;
      rows.push_back({one.what == kTestPoints ? "Test points without a counterpart" : EscapeHtml(one.what),
                      EscapeHtml(one.first), EscapeHtml(one.other), EscapeHtml(ShortPath(one.directory)),
                      refuses                   ? Badge("cannot be compared", "bad")
                      : one.what == kTestPoints ? Badge("not compared", "warn")
                                                : Badge("allowed to differ", "")});
    }
  }
  return out + Table("What differs", {"What", "In the first", "In the other", "Other", ""}, rows);
}

// Of what is compared every job sent the same.
std::string Replayed(const std::string& workload, const JobComparison& comparison) {
  for (const auto& one : comparison.jobs.front().job.workloads) {
    if (one.name == workload) return ReplayBox(one);
  }
  return "";
}

// The jobs as one: a stack of each is a stack called "A:base".
struct Together {
  results::SummaryFile summary;
  std::vector<results::RepeatFile> repeats;
};

Together PutTogether(const JobComparison& comparison) {
  Together all;
  std::set<results::PointId> compared;
  for (size_t i = 0; i < comparison.comparisons.size(); ++i) {
    results::SummaryComparison one = comparison.comparisons[i];
    const auto rename = [&](std::string* name, size_t job) {
      *name = JobLetter(job) + name->substr(comparison.jobs[job].job_id.size());
    };
    rename(&one.baseline, 0);
    rename(&one.candidate, comparison.candidate_jobs[i]);
    compared.insert({one.baseline, one.workload, one.level});
    compared.insert({one.candidate, one.workload, one.level});
    all.summary.comparisons.push_back(std::move(one));
  }
  for (size_t i = 0; i < comparison.jobs.size(); ++i) {
    for (results::SummaryPoint point : comparison.jobs[i].points) {
      point.point.stack = JobLetter(i) + ":" + point.point.stack;
      if (compared.contains(point.point)) all.summary.points.push_back(std::move(point));
    }
    for (results::RepeatFile repeat : comparison.jobs[i].repeats) {
      repeat.facts.point.stack = JobLetter(i) + ":" + repeat.facts.point.stack;
      if (compared.contains(repeat.facts.point)) all.repeats.push_back(std::move(repeat));
    }
  }
  return all;
}

std::string CompareHeader(const JobComparison& comparison) {
  std::string out = "<header><h1>Comparison</h1><p class=\"lead\">";
  for (size_t i = 0; i < comparison.jobs.size(); ++i) {
    out += (i == 0   ? ""
            : i == 1 ? ", and against it "
                     : ", ") +
           JobLetter(i) + " <small>" +
           EscapeHtml(comparison.jobs[i].job_id + " in " + ShortPath(comparison.jobs[i].directory)) +
           "</small>";
  }
  return out + "</p></header>";
}

}  // namespace

std::string ComparisonPage(const JobComparison& given) {
  const auto scaled = WithScaledNames(given);
  const JobComparison& comparison = scaled ? *scaled : given;
  std::vector<std::pair<std::string, std::string>> sections;
  std::string body = CompareHeader(comparison) + "<main id=\"main\">";
  const auto section = [&](const std::string& id, const std::string& title, const std::string& content) {
    sections.emplace_back(id, title);
    body += "<section id=\"" + id + "\"><h2>" + title + "</h2>" + content + "</section>\n";
  };
  std::vector<Chart> charts;
  if (comparison.refused()) {
    section("differs", "What differs", DifferenceTable(comparison));
  } else {
    const Together together = PutTogether(comparison);
    const results::SummaryFile& all = together.summary;
    ComparisonList every;
    for (const auto& one : all.comparisons) every.push_back(&one);
    std::string pictures =
        "<p>" + EscapeHtml(VerdictCounts(every)) + " Over all measures, points and jobs.</p>";
    std::vector<std::string> concerns = MissingPoints(comparison);
    concerns.insert(concerns.end(), comparison.notes.begin(), comparison.notes.end());
    pictures += Box("warn", "Bear in mind", concerns);
    for (const std::string& workload : WorkloadsOf(all)) {
      pictures += "<h3>" + EscapeHtml(workload) + "</h3>" + Replayed(workload, comparison) +
                  WorkloadConcerns(workload, all) + HeadlineChanges(workload, all) + "<div class=\"charts\">";
      for (Chart& chart : ChartsOf(workload, all, together.repeats)) {
        pictures += ToHtml(chart);
        charts.push_back(std::move(chart));
      }
      pictures += "</div>";
    }
    section("pictures", "Verdicts", pictures);
    section("glance", "At a glance", Glance(all));
    section("table", "All comparisons", ComparisonSection(all));
    section("differs", "What differs", DifferenceTable(comparison));
  }
  section("jobs", "Jobs", Jobs(comparison));
  if (comparison.refused()) body += Box("", "Notes", comparison.notes);
  return Page("Poolmark comparison", sections, body + "</main>", charts);
}

}  // namespace poolmark::report
