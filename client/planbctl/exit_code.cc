// The numbers rise with what they say about the trouble, so the worse of two
// is the larger.

#include "client/planbctl/exit_code.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"

namespace planb::client {

ExitCode Fail(const absl::Status& error) {
  absl::FPrintF(stderr, "planbctl: %s: %s\n",
                absl::StatusCodeToString(error.code()), error.message());
  return absl::IsUnavailable(error) ? ExitCode::kUnreachable
                                    : ExitCode::kFailed;
}

ExitCode FailUsage(absl::string_view message) {
  absl::FPrintF(stderr, "planbctl: %s\n", message);
  return ExitCode::kUsage;
}

ExitCode Worse(ExitCode a, ExitCode b) { return std::max(a, b); }

}  // namespace planb::client
