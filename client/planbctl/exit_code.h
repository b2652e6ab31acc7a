// How planbctl ends. Scripts rely on these numbers.

#ifndef PLANB_CLIENT_PLANBCTL_EXIT_CODE_H_
#define PLANB_CLIENT_PLANBCTL_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace planb::client {

enum class ExitCode : int {
  // Done as asked.
  kOk = 0,
  // The server answered, and the answer is no: an address or a prefix without a
  // route, a server that does not serve, an answer or a table that differs from
  // the file, a file of which a part could not be used.
  kNegative = 1,
  // The command line is wrong, or a local file or line cannot be used.
  kUsage = 2,
  // The server refused or failed, or did not answer in time.
  kFailed = 3,
  // The server cannot be reached, is draining, or went away.
  kUnreachable = 4,
};

// Says on stderr what went wrong between us and the server. Returns
// kUnreachable for UNAVAILABLE, kFailed for every other error.
ExitCode Fail(const absl::Status& error);

// Says on stderr what is wrong with the command line or a file; kUsage.
ExitCode FailUsage(absl::string_view message);

// The larger problem of two: a failure counts more than bad input, and that
// more than a negative answer.
ExitCode Worse(ExitCode a, ExitCode b);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_EXIT_CODE_H_
