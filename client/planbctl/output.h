// SPDX-License-Identifier: Apache-2.0

// planbctl's text: colors, progress, fields and tables.

#ifndef PLANB_CLIENT_PLANBCTL_OUTPUT_H_
#define PLANB_CLIENT_PLANBCTL_OUTPUT_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace planb::client {

// True if this file (stdout, stderr) is a terminal that obeys control
// characters.
bool IsTerminal(std::FILE* file);

// True if text on this file has colors: see --color.
bool UsesColor(std::FILE* file);

// `text` with bad news in red and good news in green.
std::string Colored(absl::string_view text);

// Shows on stderr how far a command is: one line that changes, with a bar if
// the end is known, on a terminal; else a line twice a second. Nothing in the
// first half second. Thread-compatible.
class Progress {
 public:
  // Of `total` items called `items`; 0: their number is not known.
  explicit Progress(std::string items, uint64_t total = 0);
  // Clears the line on a terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // So many are done; `more` follows on the line.
  void Show(uint64_t done, absl::string_view more = "");

 private:
  const std::string items_;
  const uint64_t total_;
  const bool terminal_;
  const absl::Time begun_;
  absl::Time shown_;
  bool drawn_ = false;
};

// A line of Progress on a terminal, without control characters.
std::string ProgressText(absl::string_view items, uint64_t done, uint64_t total,
                         absl::Duration elapsed);

// A number of bytes for humans: "0 bytes", "1.5 KiB", "960.0 MiB".
std::string SizeText(double bytes);

// A line with a name and its value, escaped.
std::string Field(absl::string_view name, absl::string_view value);

// Text in aligned columns. Thread-compatible.
class TextTable {
 public:
  // `header` is printed first, unless there are no rows.
  explicit TextTable(std::vector<std::string> header)
      : rows_({std::move(header)}) {}

  // Cells are escaped. An empty one is shown as "-".
  void AddRow(std::vector<std::string> cells);

  // The lines, without blanks at their ends.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_OUTPUT_H_
