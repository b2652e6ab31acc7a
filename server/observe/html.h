// SPDX-License-Identifier: Apache-2.0

// Just enough HTML for a page of tables. Everything given is text, and is
// escaped here, once.

#ifndef PLANB_SERVER_OBSERVE_HTML_H_
#define PLANB_SERVER_OBSERVE_HTML_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace planb::server {

// `text` as text of an element or of a quoted attribute. What is no UTF-8, and
// what no page may hold, is replaced by U+FFFD.
std::string EscapeHtml(absl::string_view text);

// Not thread-safe. Writes a page from the top down.
class HtmlPage {
 public:
  // How a column or a cell is to be seen.
  enum class Look { kText, kNumber, kGood, kBad };
  struct Column {
    std::string name;
    Look look = Look::kText;
  };
  struct Cell {
    Cell(std::string t) : text(std::move(t)) {}  // NOLINT: so rows read well
    Cell(const char* t) : text(t) {}             // NOLINT
    Cell(std::string t, Look l) : text(std::move(t)), look(l) {}
    std::string text;
    Look look = Look::kText;  // kText: as the column
  };
  using Row = std::vector<Cell>;

  explicit HtmlPage(absl::string_view title);

  void Heading(absl::string_view text);
  void Paragraph(const Cell& text);
  // A table under a header; `nothing` in place of one without rows.
  void Table(const std::vector<Column>& columns, const std::vector<Row>& rows,
             absl::string_view nothing);
  // A list of names and what they are.
  void Facts(const std::vector<std::pair<std::string, Cell>>& facts);
  void Link(absl::string_view path, absl::string_view says);
  // What follows until the next is folded away under `summary`.
  void BeginFold(absl::string_view summary);
  void EndFold();

  // The whole page. Call once.
  std::string Finish();

 private:
  std::string html_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HTML_H_
