// Pages of jobs, events and repeats of the store.
#include <algorithm>

#include "controller/jobs/sqlite.h"
#include "controller/jobs/store.h"

namespace poolmark::controller {

Result<Store::Page> Store::List(const std::vector<v1::JobState>& states, uint64_t before, uint32_t size,
                                size_t bytes) {
  std::lock_guard lock(mutex_);
  std::string sql = "SELECT number, job FROM jobs WHERE number < ?";
  if (!states.empty()) {
    sql += " AND state IN (";
    for (size_t i = 0; i < states.size(); ++i) sql += i == 0 ? "?" : ",?";
    sql += ")";
  }
  sql += " ORDER BY number DESC LIMIT ?";
  POOLMARK_ASSIGN_OR_RETURN(Statement list, db_->Prepare(sql));
  list.Int(before == 0 ? INT64_MAX : static_cast<int64_t>(before));
  for (v1::JobState state : states) list.Text(StateName(state));
  list.Int(static_cast<int64_t>(size) + 1);
  Page page;
  uint64_t last = 0;
  size_t taken = 0;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, list.Step());
    if (!row) return page;
    const std::string text = list.TextAt(1);
    taken += text.size();
    if (page.jobs.size() == size || (!page.jobs.empty() && taken > bytes)) {
      page.next = last;
      return page;
    }
    last = static_cast<uint64_t>(list.IntAt(0));
    v1::Job job;
    if (job.ParseFromString(text)) page.jobs.push_back(std::move(job));
  }
}

Result<std::map<std::string, uint64_t>> Store::CountByState() {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement count, db_->Prepare("SELECT state, count(*) FROM jobs GROUP BY state"));
  std::map<std::string, uint64_t> counts;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, count.Step());
    if (!row) return counts;
    counts[count.TextAt(0)] = static_cast<uint64_t>(count.IntAt(1));
  }
}

Result<std::vector<v1::JobEvent>> Store::Events(const std::string& job_id, uint64_t after, uint32_t limit) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(
      Statement list,
      db_->Prepare("SELECT event FROM events WHERE job_id=? AND sequence>? ORDER BY sequence LIMIT ?"));
  list.Text(job_id).Int(static_cast<int64_t>(std::min<uint64_t>(after, INT64_MAX))).Int(limit);
  std::vector<v1::JobEvent> events;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, list.Step());
    if (!row) return events;
    v1::JobEvent event;
    if (event.ParseFromString(list.TextAt(0))) events.push_back(std::move(event));
  }
}

Result<std::vector<StoredRepeat>> Store::Repeats(const std::string& job_id) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(
      Statement list,
      db_->Prepare("SELECT stack, workload, level, repeat, valid, cycle FROM repeats WHERE job_id=?"));
  list.Text(job_id);
  std::vector<StoredRepeat> repeats;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, list.Step());
    if (!row) return repeats;
    repeats.push_back({{list.TextAt(0), list.TextAt(1), list.TextAt(2), static_cast<int>(list.IntAt(3))},
                       list.IntAt(4) != 0,
                       static_cast<uint32_t>(list.IntAt(5))});
  }
}

}  // namespace poolmark::controller
