// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_schema.h"

#include <xxhash.h>

#include <memory>
#include <set>
#include <utility>

#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/store/sqlite_upgrade.h"
#include "server/store/sqlite_writer.h"

namespace planb::server {
namespace {

// No checks and no indexes: the store verifies all rows when it reads them. The
// views are for operators.
constexpr char kRows[] = R"sql(
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
)sql";
constexpr char kTables[] = R"sql(
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
  absl::Status status = (*model)->Run(absl::StrCat(kRows, kTables));
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

absl::StatusOr<bool> PrepareStoreSchema(
    Sql& sql, const StoreRow& first,
    absl::FunctionRef<absl::Status(const StoreRow&)> accept) {
  const auto version = sql.Integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const auto application = sql.Integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const auto entries = sql.Integer("SELECT count(*) FROM sqlite_schema");
  if (!entries.ok()) return entries.status();

  const std::string set_version =
      absl::StrCat("; PRAGMA user_version = ", kStoreVersion);
  const std::string newest = absl::StrCat(
      kRows, kTables, "; PRAGMA application_id = ", kStoreApplicationId,
      set_version);
  if (*version == 0 && *application == 0 && *entries == 0) {
    const absl::Status created = InTransaction(sql, [&] {
      absl::Status status = sql.Run(newest);
      if (!status.ok()) return status;
      const auto writer = SqliteWriter::Create(sql);
      return writer.ok() ? (*writer)->WriteStore(first) : writer.status();
    });
    if (!created.ok()) return created;
    return true;
  }
  if (*application != kStoreApplicationId || *version < 1) {
    return Corrupt(sql, "is not a store of PlanB Lookup, or a damaged one");
  }
  if (*version > kStoreVersion) {
    return Error(
        absl::StatusCode::kFailedPrecondition, "STORE_TOO_NEW",
        absl::StrCat(sqlite3_db_filename(sql.sql(), "main"),
                     ": has schema version ", *version,
                     ", and this server knows versions up to ", kStoreVersion,
                     " only: run the server that wrote it, or a newer"
                     " one"));
  }
  if (*version == 1) {
    const absl::Status converted = InTransaction(
        sql, [&] { return ConvertVersion1(sql, newest, accept); });
    if (!converted.ok()) return converted;
  } else if (*version == 2) {
    const absl::Status converted = InTransaction(sql, [&] {
      return ConvertVersion2(sql, absl::StrCat(kTables, set_version), accept);
    });
    if (!converted.ok()) return converted;
  }
  if (absl::Status s = CheckDefinitions(sql); !s.ok()) return s;
  return false;
}

uint64_t HashText(absl::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

uint64_t StoreRow::Checksum() const {
  return HashFields("store", store_id, sequence, generation_floor, heads_sum);
}

// Without prefix lengths it is that of version 2.
uint64_t TableHead::Checksum() const {
  const auto hash = [this](const auto&... more) {
    return HashFields("table", row.id, row.name, row.generation, row.snapshot,
                      row.parts, row.snapshot_checksum, row.first, row.base,
                      next, chain, more...);
  };
  return row.prefix_lengths ? hash("prefix_lengths") : hash();
}

}  // namespace planb::server
