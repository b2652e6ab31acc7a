// SPDX-License-Identifier: Apache-2.0

#include "base/cpu_list.h"

#include <sched.h>

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace planb {
namespace {

// cpu_set_t, with which threads are bound to cores, has no room for more.
constexpr int kLastCpu = CPU_SETSIZE - 1;

bool ParseCpu(absl::string_view text, int& cpu) {
  text = absl::StripAsciiWhitespace(text);
  // SimpleAtoi allows a sign.
  return !text.empty() && absl::ascii_isdigit(static_cast<uint8_t>(text[0])) &&
         absl::SimpleAtoi(text, &cpu) && cpu <= kLastCpu;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text) {
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends =
        absl::StrSplit(item, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (!ParseCpu(ends.front(), first) || !ParseCpu(ends.back(), last)) {
      return absl::InvalidArgumentError(
          absl::StrCat("list of cores \"", text, "\": item \"", item,
                       "\" is no number of a core (0 to ", kLastCpu,
                       ") and no range of them such as 2-3"));
    }
    if (last < first) {
      return absl::InvalidArgumentError(
          absl::StrCat("list of cores \"", text, "\": range \"", item,
                       "\" ends below its start"));
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace planb
