// A table is printed at once, when all widths are known.

#include "client/planbctl/text_output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace planb::client {

void PrintField(absl::string_view name, absl::string_view value) {
  absl::PrintF("%-14s %s\n", name, value);
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    if (cell.empty()) cell.push_back('-');
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  if (rows_.size() == 1) return "";
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += row[i];
      if (!last) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace planb::client
