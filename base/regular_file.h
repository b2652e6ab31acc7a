// SPDX-License-Identifier: Apache-2.0

// Reads files that another program put there: whole, and only if they are
// regular files.

#ifndef PLANB_BASE_REGULAR_FILE_H_
#define PLANB_BASE_REGULAR_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace planb {

// The text of a regular file of at most `max_bytes`. Never waits, as opening a
// pipe would. Errors: INVALID_ARGUMENT, which says why but not which file.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            size_t max_bytes);

}  // namespace planb

#endif  // PLANB_BASE_REGULAR_FILE_H_
