#include "cli/output/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/output/one_line.h"

namespace poolmark::cli {

Format FormatOf(const std::string& name) {
  if (name == "json") return Format::kJson;
  return name == "jsonl" ? Format::kJsonLines : Format::kTable;
}

size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Table::Text() const {
  std::vector<size_t> widths;
  for (const std::string& title : head_) widths.push_back(DisplayWidth(title));
  std::vector<std::vector<Cell>> rows = rows_;
  for (auto& row : rows) {
    row.resize(head_.size());
    for (size_t i = 0; i < row.size(); ++i) {
      row[i].text = Printable(OneLine(row[i].text));
      widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    }
  }
  auto line = [&](const std::vector<Cell>& row) {
    std::string text;
    size_t owed = 0;  // spaces before the next cell that is not empty
    for (size_t i = 0; i < row.size(); ++i) {
      if (!row[i].text.empty()) {
        text += std::string(owed, ' ') + Coloured(row[i].text, row[i].colour);
        owed = 0;
      }
      owed += widths[i] - DisplayWidth(row[i].text) + 2;
    }
    return text + "\n";
  };
  std::vector<Cell> head;
  for (const std::string& title : head_) head.push_back({title, Colour::kDim});
  std::string text = line(head);
  for (const auto& row : rows) text += line(row);
  return text;
}

std::string JsonText(const Json& json, Format format) {
  auto text = DumpJson(json, format == Format::kJson ? 2 : -1);
  return (text.ok() ? *text : "{}") + "\n";
}

std::string JsonRows(const std::vector<Json>& rows, Format format) {
  if (format == Format::kJson) return JsonText(Json(rows), format);
  std::string text;
  for (const Json& row : rows) text += JsonText(row, format);
  return text;
}

std::string ErrorText(const Errors& errors, Format format) {
  if (format == Format::kTable) {
    std::string text;
    for (const Error& error : errors)
      text += "poolmark: " + Printable(std::string(ToStatus(error).message()), true) + "\n";
    return text;
  }
  Json list = Json::array();
  for (const Error& error : errors) {
    list.push_back(
        {{"code", error.code}, {"where", error.where}, {"message", error.message}, {"hint", error.hint}});
  }
  return JsonText({{"errors", list}}, format);
}

}  // namespace poolmark::cli
