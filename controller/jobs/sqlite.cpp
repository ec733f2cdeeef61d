#include "controller/jobs/sqlite.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

Status SqliteError(sqlite3* db, int code, const std::string& path, const std::string& doing) {
  absl::StatusCode kind = absl::StatusCode::kInternal;
  std::string hint;
  switch (code & 0xff) {
    case SQLITE_FULL:
      kind = absl::StatusCode::kResourceExhausted;
      hint = "free space on the disk of the state directory";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      kind = absl::StatusCode::kDataLoss;
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      kind = absl::StatusCode::kUnavailable;
      break;
    default:
      break;
  }
  return ToStatus(Error{kind, "store", path,
                        absl::StrCat(doing, ": ", db ? sqlite3_errmsg(db) : sqlite3_errstr(code)), hint});
}

}  // namespace

Statement::~Statement() {
  sqlite3_finalize(stmt_);
}

Statement& Statement::Text(std::string_view text) {
  sqlite3_bind_text(stmt_, next_++, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::Blob(std::string_view bytes) {
  // A null pointer would bind NULL; an empty message is an empty blob.
  sqlite3_bind_blob(stmt_, next_++, bytes.empty() ? "" : bytes.data(), static_cast<int>(bytes.size()),
                    SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::Int(int64_t value) {
  sqlite3_bind_int64(stmt_, next_++, value);
  return *this;
}

Result<bool> Statement::Step() {
  int code = sqlite3_step(stmt_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteError(sqlite3_db_handle(stmt_), code, path_, absl::StrCat("'", sqlite3_sql(stmt_), "'"));
}

Status Statement::Run() {
  for (;;) {
    auto row = Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
  }
}

std::string Statement::TextAt(int column) const {
  const void* data = sqlite3_column_blob(stmt_, column);
  if (data == nullptr) return "";
  return std::string(static_cast<const char*>(data),
                     static_cast<size_t>(sqlite3_column_bytes(stmt_, column)));
}
int64_t Statement::IntAt(int column) const {
  return sqlite3_column_int64(stmt_, column);
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  sqlite3* db = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    Status status = SqliteError(db, code, path, "opening");
    sqlite3_close_v2(db);
    return status;
  }
  std::unique_ptr<Database> database(new Database(db, path));
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, 10'000);
  // The log stays where it is when the last one closes it: its room is part of the store's reserve.
  int persist = 1;
  sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
  // FULL: in WAL mode NORMAL loses acknowledged commits at a power cut.
  POOLMARK_RETURN_IF_ERROR(
      database->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON"));
  return database;
}

Database::~Database() {
  sqlite3_close_v2(db_);
}

Status Database::Execute(const std::string& sql) {
  int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return SqliteError(db_, code, path_, absl::StrCat("'", sql.substr(0, 200), "'"));
  return absl::OkStatus();
}

Result<Statement> Database::Prepare(const std::string& sql) {
  sqlite3_stmt* stmt = nullptr;
  int code = sqlite3_prepare_v2(db_, sql.c_str(), static_cast<int>(sql.size()), &stmt, nullptr);
  if (code != SQLITE_OK) return SqliteError(db_, code, path_, absl::StrCat("'", sql, "'"));
  return Statement(stmt, path_);
}

Result<std::optional<std::string>> Database::One(const std::string& sql) {
  POOLMARK_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  POOLMARK_ASSIGN_OR_RETURN(bool row, statement.Step());
  if (!row) return std::optional<std::string>();
  return std::optional<std::string>(statement.TextAt(0));
}

int64_t Database::Changes() const {
  return sqlite3_changes64(db_);
}

Result<Transaction> Transaction::Begin(Database* db) {
  POOLMARK_RETURN_IF_ERROR(db->Execute("BEGIN IMMEDIATE"));
  return Transaction(db);
}
Transaction::~Transaction() {
  if (db_ != nullptr) (void)db_->Execute("ROLLBACK");
}
Status Transaction::Commit() {
  POOLMARK_RETURN_IF_ERROR(db_->Execute("COMMIT"));
  db_ = nullptr;
  return absl::OkStatus();
}

}  // namespace poolmark::controller
