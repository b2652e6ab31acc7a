// SPDX-License-Identifier: Apache-2.0

#include "client/planbctl/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/utf8.h"
#include "client/planbctl/flags.h"

namespace planb::client {

bool IsTerminal(std::FILE* file) {
  const char* const terminal = std::getenv("TERM");
  return isatty(fileno(file)) != 0 &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

bool UsesColor(std::FILE* file) {
  switch (absl::GetFlag(FLAGS_color).value) {
    case ColorWhen::kAlways:
      return true;
    case ColorWhen::kNever:
      return false;
    case ColorWhen::kAuto:
      break;
  }
  const char* const none = std::getenv("NO_COLOR");  // https://no-color.org
  return IsTerminal(file) && (none == nullptr || none[0] == '\0');
}

std::string Colored(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"no route", "\x1b[31mno route\x1b[0m"},
                              {"NOT_SERVING", "\x1b[31mNOT_SERVING\x1b[0m"},
                              {"BUILD FAILED", "\x1b[31mBUILD FAILED\x1b[0m"},
                              {"SERVING", "\x1b[32mSERVING\x1b[0m"}});
}

std::string ProgressText(absl::string_view items, uint64_t done, uint64_t total,
                         absl::Duration elapsed) {
  constexpr uint64_t kWidth = 30;
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const std::string rate =
      seconds > 0
          ? absl::StrFormat(", %.0f/s", static_cast<double>(done) / seconds)
          : "";
  if (total == 0) return absl::StrCat(done, " ", items, rate);
  const uint64_t shown = std::min(done, total);
  const auto full = static_cast<size_t>(shown * kWidth / total);
  return absl::StrFormat("[%s%s] %3d%%  %d of %d %s%s", std::string(full, '#'),
                         std::string(kWidth - full, ' '), shown * 100 / total,
                         done, total, items, rate);
}

namespace {

constexpr absl::Duration kFirstProgress = absl::Milliseconds(500);
constexpr absl::Duration kNextProgress = absl::Milliseconds(100);

}  // namespace

Progress::Progress(std::string items, uint64_t total)
    : items_(std::move(items)),
      total_(total),
      terminal_(IsTerminal(stderr)),
      begun_(MonotonicNow()),
      shown_(begun_) {}

Progress::~Progress() {
  if (drawn_) absl::FPrintF(stderr, "\r\x1b[K");
}

void Progress::Show(uint64_t done, absl::string_view more) {
  const absl::Time now = MonotonicNow();
  const absl::Duration pause =
      terminal_ && shown_ != begun_ ? kNextProgress : kFirstProgress;
  if (now - shown_ < pause) return;
  shown_ = now;
  if (terminal_) {
    drawn_ = true;
    absl::FPrintF(stderr, "\r\x1b[K%s%s",
                  ProgressText(items_, done, total_, now - begun_), more);
    std::fflush(stderr);
  } else {
    absl::FPrintF(stderr, "planbctl: %d %s sent%s\n", done, items_, more);
  }
}

std::string SizeText(double bytes) {
  if (bytes < 1024) return absl::StrFormat("%.0f bytes", bytes);
  absl::string_view unit;
  for (const absl::string_view larger : {"KiB", "MiB", "GiB", "TiB"}) {
    // What would be printed as 1024.0 is one of the next unit.
    if (!unit.empty() && bytes < 1023.95) break;
    unit = larger;
    bytes /= 1024;
  }
  return absl::StrFormat("%.1f %s", bytes, unit);
}

std::string Field(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("%-14s %s\n", name, Printable(value));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    cell = cell.empty() ? "-" : Printable(cell);
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
  const bool colors = UsesColor(stdout);
  for (const auto& row : rows_) {
    const bool header = colors && &row == &rows_[0];
    if (header) text += "\x1b[1m";
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += row[i];
      if (!last) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += header ? "\x1b[0m\n" : "\n";
  }
  return text;
}

}  // namespace planb::client
