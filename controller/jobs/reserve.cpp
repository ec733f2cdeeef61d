#include "controller/jobs/reserve.h"

#include <sys/stat.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/jobs/sqlite.h"

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kTryAgain = std::chrono::minutes(1);

Result<int64_t> NumberOf(Database* db, const std::string& pragma) {
  POOLMARK_ASSIGN_OR_RETURN(auto text, db->One(absl::StrCat("PRAGMA ", pragma)));
  int64_t number = 0;
  if (!absl::SimpleAtoi(text.value_or(""), &number))
    return Internal("store", absl::StrCat("PRAGMA ", pragma, " gave no number"));
  return number;
}

int64_t SizeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : 0;
}

Status Fill(Database* db) {
  POOLMARK_RETURN_IF_ERROR(db->Execute("DROP TABLE IF EXISTS reserve"));
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db));
  POOLMARK_RETURN_IF_ERROR(db->Execute(absl::StrCat(
      "CREATE TABLE reserve(room BLOB); INSERT INTO reserve VALUES(zeroblob(", Reserve::kLogBytes, "))")));
  POOLMARK_RETURN_IF_ERROR(transaction.Commit());
  // Into the file while the pages are in use; then they are free.
  return db->Execute("PRAGMA wal_checkpoint(PASSIVE); DROP TABLE reserve; PRAGMA wal_checkpoint(PASSIVE)");
}

}  // namespace

Status Reserve::Keep(Database* db, const std::string& file, Nanoseconds now) {
  if (failed_.count() != 0 && now - failed_ < kTryAgain) return absl::OkStatus();
  POOLMARK_ASSIGN_OR_RETURN(const int64_t pages, NumberOf(db, "freelist_count"));
  POOLMARK_ASSIGN_OR_RETURN(const int64_t bytes, NumberOf(db, "page_size"));
  if (pages * bytes >= kFileBytes / 2 && SizeOf(file + "-wal") >= kLogBytes) return absl::OkStatus();
  Status filled = Fill(db);
  failed_ = filled.ok() ? Nanoseconds(0) : now;
  return filled;
}

}  // namespace poolmark::controller
