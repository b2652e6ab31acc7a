// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_schema.h"

#include <xxhash.h>

#include <memory>
#include <set>
#include <utility>

#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/store/sqlite_writer.h"

namespace planb::server {
namespace {

// No checks and no indexes: the store verifies all rows when it reads them. The
// views are for operators.
constexpr char kSchema[] = R"sql(
CREATE TABLE store (
  id INTEGER PRIMARY KEY,
  store_id INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  generation_floor INTEGER NOT NULL,
  heads_sum INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE log (
  id INTEGER PRIMARY KEY,
  checksum INTEGER NOT NULL,
  entry BLOB NOT NULL
) STRICT;
CREATE TABLE snapshots (
  id INTEGER PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;
CREATE TABLE tables (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  generation INTEGER NOT NULL,
  snapshot INTEGER NOT NULL,
  parts INTEGER NOT NULL,
  snapshot_checksum INTEGER NOT NULL,
  first INTEGER NOT NULL,
  base INTEGER NOT NULL,
  prefix_lengths INTEGER NOT NULL
) STRICT;
CREATE VIEW log_list AS SELECT
  tables.name AS table_name,
  log.id & ((1 << 43) - 1) AS number,
  length(entry) AS bytes
  FROM log JOIN tables ON tables.id = log.id >> 43;
CREATE VIEW snapshot_list AS SELECT
  tables.name AS table_name,
  snapshots.id & ((1 << 24) - 1) AS part,
  length(bytes) AS bytes
  FROM snapshots JOIN tables ON tables.snapshot = snapshots.id >> 24;
)sql";

absl::Status Corrupt(const Sql& sql, absl::string_view what) {
  return Error(
      absl::StatusCode::kDataLoss, "STORE_CORRUPT",
      absl::StrCat(sqlite3_db_filename(sql.sql(), "main"), ": ", what));
}

absl::Status InTransaction(Sql& sql, absl::FunctionRef<absl::Status()> body) {
  absl::Status status = sql.Run("BEGIN IMMEDIATE");
  if (status.ok()) status = body();
  if (status.ok()) status = sql.Run("COMMIT");
  if (!status.ok() && sql.InTransaction()) {
    sql.Run("ROLLBACK").IgnoreError();  // the first error is the cause
  }
  return status;
}

// The entries of the schema as (name, definition).
absl::StatusOr<std::set<std::pair<std::string, std::string>>> Definitions(
    Sql& sql) {
  absl::StatusOr<SqlStatement> statement =
      sql.Prepare("SELECT name, sql FROM sqlite_schema");
  if (!statement.ok()) return statement.status();
  std::set<std::pair<std::string, std::string>> definitions;
  while (true) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) return definitions;
    definitions.emplace(statement->Bytes(0), statement->Bytes(1));
  }
}

// Refuses a schema with a changed or missing definition. Accepts additional
// ones, such as an operator's view.
absl::Status CheckDefinitions(Sql& sql) {
  const absl::StatusOr<std::unique_ptr<Sql>> model =
      Sql::Open(":memory:", /*create=*/true);
  if (!model.ok()) return model.status();
  absl::Status status = (*model)->Run(kSchema);
  if (!status.ok()) return status;
  const auto expected = Definitions(**model);
  if (!expected.ok()) return expected.status();
  const auto actual = Definitions(sql);
  if (!actual.ok()) return actual.status();
  for (const auto& definition : *expected) {
    if (actual->count(definition) == 0) {
      return Corrupt(sql,
                     absl::StrCat("its schema is damaged: ", definition.first));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareStoreSchema(Sql& sql, const StoreRow& first) {
  const auto version = sql.Integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const auto application = sql.Integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const auto entries = sql.Integer("SELECT count(*) FROM sqlite_schema");
  if (!entries.ok()) return entries.status();

  if (*version == 0 && *application == 0 && *entries == 0) {
    return InTransaction(sql, [&] {
      absl::Status status = sql.Run(absl::StrCat(
          kSchema, "; PRAGMA application_id = ", kStoreApplicationId,
          "; PRAGMA user_version = ", kStoreVersion));
      if (!status.ok()) return status;
      const auto writer = SqliteWriter::Create(sql);
      return writer.ok() ? (*writer)->WriteStore(first) : writer.status();
    });
  }
  if (*application != kStoreApplicationId || *version < 1) {
    return Corrupt(sql, "is not a store of PlanB Lookup, or a damaged one");
  }
  if (*version != kStoreVersion) {
    return Error(
        absl::StatusCode::kFailedPrecondition,
        *version > kStoreVersion ? "STORE_TOO_NEW" : "STORE_TOO_OLD",
        absl::StrCat(sqlite3_db_filename(sql.sql(), "main"),
                     ": has schema version ", *version,
                     ", and this server has version ", kStoreVersion,
                     ": run a server of that version, or start with an empty "
                     "store"));
  }
  return CheckDefinitions(sql);
}

uint64_t HashText(absl::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

uint64_t StoreRow::Checksum() const {
  return HashFields("store", store_id, sequence, generation_floor, heads_sum);
}

uint64_t TableHead::Checksum() const {
  return HashFields("table", row.id, row.name, row.generation, row.snapshot,
                    row.parts, row.snapshot_checksum, row.first, row.base,
                    int{row.prefix_lengths}, next, chain);
}

}  // namespace planb::server
