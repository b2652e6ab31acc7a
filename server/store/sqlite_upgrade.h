// SPDX-License-Identifier: Apache-2.0

// Converts databases of older schemas.

#ifndef PLANB_SERVER_STORE_SQLITE_UPGRADE_H_
#define PLANB_SERVER_STORE_SQLITE_UPGRADE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_sql.h"

namespace planb::server {

// Converts a database of schema version 1, in which each route was a row: reads
// and verifies all tables, calls `accept` with the row of the store, replaces
// the schema by running `newest`, and writes a snapshot of each table.
// Errors: DATA_LOSS (STORE_CORRUPT) if the database is damaged; those of Sql
// and of `accept`. REQUIRES: a transaction is open.
absl::Status ConvertVersion1(
    Sql& sql, const std::string& newest,
    absl::FunctionRef<absl::Status(const StoreRow&)> accept);

// Converts a database of schema version 2, in which no table had prefix
// lengths: makes `tables` and the views anew by running `newest`, and calls
// `accept` with the row of the store. Errors and REQUIRES: as above.
absl::Status ConvertVersion2(
    Sql& sql, const std::string& newest,
    absl::FunctionRef<absl::Status(const StoreRow&)> accept);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_UPGRADE_H_
