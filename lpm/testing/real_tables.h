// SPDX-License-Identifier: Apache-2.0

// The real routing tables that some tests run on, where they are at hand.

#ifndef PLANB_LPM_TESTING_REAL_TABLES_H_
#define PLANB_LPM_TESTING_REAL_TABLES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// The file with the table of 2026-07-30 in PLANB_DATA_DIR, or "" if it is not
// there; such tests then skip.
std::string RealTablePath(Family family);

// Reads "PREFIX/LEN NEXTHOP" lines, gzipped or not. Sorted by prefix.
// Deliberately not the project's own reader: tests check one by the other.
// Errors: NOT_FOUND; INVALID_ARGUMENT naming the line.
absl::StatusOr<std::vector<Route>> ReadPlainTable(const std::string& path);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_REAL_TABLES_H_
