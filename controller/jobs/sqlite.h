// SQLite behind one small header. A database and its statements belong to one thread at a time; the store
// guards them with its mutex. Errors name the file and the statement.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace poolmark::controller {

class Statement {
 public:
  Statement(Statement&& other) noexcept : stmt_(other.stmt_), path_(std::move(other.path_)) {
    other.stmt_ = nullptr;
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();
  // Parameters in order, from 1.
  Statement& Text(std::string_view text);
  Statement& Blob(std::string_view bytes);
  Statement& Int(int64_t value);
  // True while there is a row.
  Result<bool> Step();
  // For statements without rows.
  Status Run();
  std::string TextAt(int column) const;
  int64_t IntAt(int column) const;

 private:
  friend class Database;
  Statement(sqlite3_stmt* stmt, std::string path) : stmt_(stmt), path_(std::move(path)) {}
  sqlite3_stmt* stmt_;
  std::string path_;
  int next_ = 1;
};

class Database {
 public:
  // Opens or creates `path` with WAL, synchronous=FULL and foreign keys.
  static Result<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  Status Execute(const std::string& sql);
  Result<Statement> Prepare(const std::string& sql);
  // The first column of the first row.
  Result<std::optional<std::string>> One(const std::string& sql);
  // Rows that the last statement changed.
  int64_t Changes() const;

 private:
  Database(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  sqlite3* db_;
  std::string path_;
};

// BEGIN IMMEDIATE … COMMIT; rolls back when it goes out of scope without a Commit that succeeded.
class Transaction {
 public:
  static Result<Transaction> Begin(Database* db);
  Transaction(Transaction&& other) noexcept : db_(other.db_) { other.db_ = nullptr; }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  Status Commit();

 private:
  explicit Transaction(Database* db) : db_(db) {}
  Database* db_;
};

}  // namespace poolmark::controller
