// SPDX-License-Identifier: Apache-2.0

#include "server/observe/html.h"

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace planb::server {
namespace {

// Readable without a request for anything else, narrow windows included: there
// the tables scroll by themselves, and the page does not.
constexpr char kStyle[] = R"css(
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem 1.25rem 3rem;
  background: #fff; color: #1c2430;
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; padding-bottom: .2rem;
  border-bottom: 2px solid #dfe4ec; }
a { color: #0b57b0; }
p { margin: .4rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid #e8ecf2; }
th { color: #55606f; font-weight: 600; white-space: nowrap; }
td:first-child { white-space: nowrap; }
td { overflow-wrap: break-word; max-width: 34rem; }
tbody tr:hover { background: #f4f7fb; }
.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.good { color: #176b34; font-weight: 600; }
.bad { color: #b3261e; font-weight: 600; }
.none { color: #6b7684; }
dl { display: grid; grid-template-columns: max-content 1fr;
  gap: .2rem 1.2rem; margin: .3rem 0; font-size: .9rem; }
dt { color: #55606f; }
dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; color: #0b57b0; margin: .6rem 0; }
@media (max-width: 32rem) {
  body { padding: .5rem .75rem 2rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .4rem; }
}
)css";

absl::string_view ClassOf(HtmlPage::Look look) {
  switch (look) {
    case HtmlPage::Look::kText:
      return "";
    case HtmlPage::Look::kNumber:
      return " class=\"number\"";
    case HtmlPage::Look::kGood:
      return " class=\"good\"";
    case HtmlPage::Look::kBad:
      return " class=\"bad\"";
  }
  return "";
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = Utf8Length(text);
    const char c = text.front();
    const bool control =
        bytes == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
    if (bytes == 0 || (control && c != '\n' && c != '\t')) {
      out.append(kReplacementCharacter.data(), kReplacementCharacter.size());
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out.append(text.data(), bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

HtmlPage::HtmlPage(absl::string_view title) {
  const std::string escaped = EscapeHtml(title);
  // The icon is empty, or browsers would ask for one.
  absl::StrAppend(&html_,
                  "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                  "<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" "
                  "content=\"width=device-width, initial-scale=1\">\n"
                  "<link rel=\"icon\" href=\"data:,\">\n<title>",
                  escaped, "</title>\n<style>", kStyle,
                  "</style>\n</head>\n<body>\n<h1>", escaped, "</h1>\n");
}

void HtmlPage::Heading(absl::string_view text) {
  absl::StrAppend(&html_, "<h2>", EscapeHtml(text), "</h2>\n");
}

void HtmlPage::Paragraph(const Cell& text) {
  absl::StrAppend(&html_, "<p", ClassOf(text.look), ">", EscapeHtml(text.text),
                  "</p>\n");
}

void HtmlPage::Table(const std::vector<Column>& columns,
                     const std::vector<Row>& rows, absl::string_view nothing) {
  if (rows.empty()) {
    absl::StrAppend(&html_, "<p class=\"none\">", EscapeHtml(nothing),
                    "</p>\n");
    return;
  }
  absl::StrAppend(&html_, "<div class=\"scroll\"><table>\n<thead><tr>");
  for (const Column& column : columns) {
    absl::StrAppend(&html_, "<th scope=\"col\"", ClassOf(column.look), ">",
                    EscapeHtml(column.name), "</th>");
  }
  absl::StrAppend(&html_, "</tr></thead>\n<tbody>\n");
  for (const Row& row : rows) {
    absl::StrAppend(&html_, "<tr>");
    for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      const Look look =
          row[i].look == Look::kText ? columns[i].look : row[i].look;
      absl::StrAppend(&html_, "<td", ClassOf(look), ">",
                      EscapeHtml(row[i].text), "</td>");
    }
    absl::StrAppend(&html_, "</tr>\n");
  }
  absl::StrAppend(&html_, "</tbody>\n</table></div>\n");
}

void HtmlPage::Facts(const std::vector<std::pair<std::string, Cell>>& facts) {
  absl::StrAppend(&html_, "<dl>\n");
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&html_, "<dt>", EscapeHtml(name), "</dt><dd",
                    ClassOf(value.look), ">", EscapeHtml(value.text),
                    "</dd>\n");
  }
  absl::StrAppend(&html_, "</dl>\n");
}

void HtmlPage::Link(absl::string_view path, absl::string_view says) {
  absl::StrAppend(&html_, "<p><a href=\"", EscapeHtml(path), "\">",
                  EscapeHtml(path), "</a> ", EscapeHtml(says), "</p>\n");
}

void HtmlPage::BeginFold(absl::string_view summary) {
  absl::StrAppend(&html_, "<details><summary>", EscapeHtml(summary),
                  "</summary>\n");
}

void HtmlPage::EndFold() { absl::StrAppend(&html_, "</details>\n"); }

std::string HtmlPage::Finish() {
  absl::StrAppend(&html_, "</body>\n</html>\n");
  return std::move(html_);
}

}  // namespace planb::server
