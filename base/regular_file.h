// SPDX-License-Identifier: Apache-2.0

#ifndef PLANB_BASE_REGULAR_FILE_H_
#define PLANB_BASE_REGULAR_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace planb {

// Reads a whole regular file of at most `max_bytes`. Never blocks, as opening a
// pipe would. Errors: INVALID_ARGUMENT, without the name of the file.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path,
                                            size_t max_bytes);

}  // namespace planb

#endif  // PLANB_BASE_REGULAR_FILE_H_
