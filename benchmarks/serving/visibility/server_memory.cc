#include "benchmarks/serving/visibility/server_memory.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace planb::visibility {

absl::StatusOr<Memory> MemoryOf(pid_t process) {
  std::ifstream in(absl::StrCat("/proc/", process, "/status"));
  Memory memory;
  std::string word;
  while (in >> word) {
    uint64_t kilobytes = 0;
    if (word == "VmRSS:" && in >> kilobytes) memory.resident = kilobytes << 10;
    if (word == "VmHWM:" && in >> kilobytes) memory.peak = kilobytes << 10;
  }
  if (memory.resident == 0) {
    return absl::NotFoundError(absl::StrCat("there is no process ", process));
  }
  return memory;
}

absl::Status ResetPeak(pid_t process) {
  const auto memory = MemoryOf(process);
  if (!memory.ok()) return memory.status();
  std::ofstream out(absl::StrCat("/proc/", process, "/clear_refs"));
  out << 5 << std::flush;  // proc(5): the peak of the resident set
  if (out) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot reset the peak of process ", process));
}

}  // namespace planb::visibility
