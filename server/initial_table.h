// SPDX-License-Identifier: Apache-2.0

// The table a server starts with: from a file, made up, or empty.

#ifndef PLANB_SERVER_INITIAL_TABLE_H_
#define PLANB_SERVER_INITIAL_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/table/table.h"

namespace planb::server {

struct InitialTableOptions {
  // A file as lpm/io reads it; empty: none.
  std::string routes_file;
  // Refuse a file with a malformed record.
  bool strict = false;
  // Or a synthetic table of so many routes.
  uint64_t generate_v6 = 0;
  uint64_t generate_v4 = 0;
  uint64_t seed = 1;
};

// Puts the initial routes into `table` as its first generation and waits until
// they are visible. A table that has a generation already, from a store, is
// left as it is. Errors: those of ReadRouteFile and Table::Apply.
absl::Status LoadInitialTable(const InitialTableOptions& options, Table& table);

}  // namespace planb::server

#endif  // PLANB_SERVER_INITIAL_TABLE_H_
