// SPDX-License-Identifier: Apache-2.0

// The schema of the store's database as a list of numbered steps, and how a
// database gets from the version it has to the newest.

#ifndef PLANB_SERVER_STORE_STORE_SCHEMA_H_
#define PLANB_SERVER_STORE_STORE_SCHEMA_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/store/store_sql.h"

namespace planb::server {

// PRAGMA application_id of our databases: "PlnB".
inline constexpr int kStoreApplicationId = 0x506c6e42;

// Step i, some SQL, takes a database from version i to i + 1; the version is in
// PRAGMA user_version. What was released is never edited: a change of the
// schema is one more step at the end.
absl::Span<const std::string> StoreSchemaSteps();

// Brings the database of `sql` to the newest version, each step in a
// transaction of its own. An empty database gets all steps and `first_rows`,
// some SQL, in one. True if it was empty.
// Errors: FAILED_PRECONDITION (STORE_TOO_NEW) if its version is not known yet;
// DATA_LOSS (STORE_CORRUPT) if it is no database of ours, or if something in
// the schema is not as the steps would have made it; those of Sql.
absl::StatusOr<bool> PrepareStoreSchema(
    Sql& sql, const std::string& first_rows,
    absl::Span<const std::string> steps = StoreSchemaSteps());

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_SCHEMA_H_
