// One set of rows in the form that the user asked for: an aligned table for people, JSON (an array) or JSON
// Lines for programs. JSON has every field under stable names; the table has a selection.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/output/terminal.h"
#include "common/base/json.h"

namespace poolmark::cli {

enum class Format { kTable, kJson, kJsonLines };
// "table", "json", "jsonl".
Format FormatOf(const std::string& name);

struct Cell {
  std::string text;
  Colour colour = Colour::kNone;
};

class Table {
 public:
  explicit Table(std::vector<std::string> head) : head_(std::move(head)) {}
  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  // Columns two spaces apart, as wide as their widest cell; no spaces at line ends.
  std::string Text() const;

 private:
  std::vector<std::string> head_;
  std::vector<std::vector<Cell>> rows_;
};

// Width on a terminal: code points, not bytes.
size_t DisplayWidth(const std::string& text);
// One object: indented for kJson, one line for kJsonLines.
std::string JsonText(const Json& json, Format format);
// An array for kJson, a line each for kJsonLines.
std::string JsonRows(const std::vector<Json>& rows, Format format);

// An error in the form of `format`, for stderr: a line for each ("poolmark: where: message: hint"), or one
// object
// {"errors": [{code, where, message, hint}]}.
std::string ErrorText(const Errors& errors, Format format);

}  // namespace poolmark::cli
