// Output for people: fields under each other, and tables.

#ifndef PLANB_CLIENT_PLANBCTL_TEXT_OUTPUT_H_
#define PLANB_CLIENT_PLANBCTL_TEXT_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace planb::client {

// Prints one field of a thing.
void PrintField(absl::string_view name, absl::string_view value);

// Rows whose columns are as wide as their widest cell. Thread-compatible.
class TextTable {
 public:
  // `header` is printed first, unless there are no rows.
  explicit TextTable(std::vector<std::string> header)
      : rows_({std::move(header)}) {}

  // An empty cell is shown as "-".
  void AddRow(std::vector<std::string> cells);

  // The lines, without blanks at their ends.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_TEXT_OUTPUT_H_
