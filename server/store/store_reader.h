// SPDX-License-Identifier: Apache-2.0

// Reads everything in the store, and believes none of it: every value must be
// possible, and all together must add up to the checksums stored beside.

#ifndef PLANB_SERVER_STORE_STORE_READER_H_
#define PLANB_SERVER_STORE_STORE_READER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_schema.h"
#include "server/store/store_sql.h"
#include "server/store/store_writer.h"
#include "server/table/store.h"

namespace planb::server {

// What vouches for all else.
struct StoreState {
  StoreRow store;
  std::vector<StoredTableState> tables;  // by ascending id
};

// Reads it, next hops and groups included, and checks it against itself. O(1)
// memory and time in the number of routes.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
absl::StatusOr<StoreState> ReadStoreState(Sql& sql);

// Reads all that `state` vouches for, ordered by name, and checks it. Needs to
// be in one transaction with what read `state`.
// Errors: DATA_LOSS (STORE_CORRUPT); those of Sql.
absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const StoreState& state);

// The next hop or group of the row that `statement` is at, whose columns from
// `column` on are id, gateway, interface, weight, label or id, members, label.
absl::StatusOr<NextHop> ReadNextHop(const SqlStatement& statement, int column);
absl::StatusOr<NextHopGroup> ReadGroup(const SqlStatement& statement,
                                       int column);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_READER_H_
