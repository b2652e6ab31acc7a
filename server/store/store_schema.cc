// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_schema.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// Each row of routes, next hops, groups and requests names its table by id. No
// foreign keys and no checks: they would cost a lookup a row, and all rows are
// checked when they are read.
constexpr char kVersion1[] = R"sql(
CREATE TABLE store (
  id INTEGER PRIMARY KEY,
  store_id INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  generation_floor INTEGER NOT NULL,
  tables_sum INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE tables (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  generation INTEGER NOT NULL,
  writer_epoch INTEGER NOT NULL,
  digest BLOB NOT NULL,
  objects_digest BLOB NOT NULL,
  first_request INTEGER NOT NULL,
  next_request INTEGER NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE routes (
  table_id INTEGER NOT NULL,
  family INTEGER NOT NULL,
  address BLOB NOT NULL,
  length INTEGER NOT NULL,
  next_hop INTEGER NOT NULL,
  PRIMARY KEY (table_id, family, address, length)
) STRICT, WITHOUT ROWID;
CREATE TABLE next_hops (
  table_id INTEGER NOT NULL,
  id INTEGER NOT NULL,
  gateway TEXT,
  interface TEXT NOT NULL,
  weight INTEGER NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (table_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE next_hop_groups (
  table_id INTEGER NOT NULL,
  id INTEGER NOT NULL,
  members TEXT NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (table_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
  table_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  fingerprint INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  added INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  unchanged INTEGER NOT NULL,
  next_hops_added INTEGER NOT NULL,
  next_hops_changed INTEGER NOT NULL,
  next_hops_removed INTEGER NOT NULL,
  digest BLOB NOT NULL,
  accepted_nanos INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (table_id, number)
) STRICT, WITHOUT ROWID;
)sql";

// For people. SQLite has neither a function that shows an address nor one that
// reads a hexadecimal digit.
std::string RouteView() {
  std::string v4;
  for (int byte = 0; byte < 4; ++byte) {
    absl::StrAppend(&v4, byte == 0 ? "" : " || '.' || ",
                    "((instr('123456789ABCDEF', substr(hex, ", 2 * byte + 1,
                    ", 1)) * 16) + instr('123456789ABCDEF', substr(hex, ",
                    2 * byte + 2, ", 1)))");
  }
  std::string v6;
  for (int group = 0; group < 8; ++group) {
    absl::StrAppend(&v6, group == 0 ? "" : " || ':' || ", "substr(hex, ",
                    4 * group + 1, ", 4)");
  }
  return absl::StrCat(
      "CREATE VIEW route_list AS SELECT tables.name AS table_name,"
      " CASE family WHEN 4 THEN ",
      v4, " ELSE lower(", v6, ") END || '/' || length AS prefix, next_hop",
      " FROM (SELECT *, substr(hex(address) ||"
      " '00000000000000000000000000000000', 1, 32) AS hex FROM routes)"
      " JOIN tables ON tables.id = table_id;");
}

absl::Status Corrupt(const Sql& sql, absl::string_view what) {
  return Error(
      absl::StatusCode::kDataLoss, "STORE_CORRUPT",
      absl::StrCat(sqlite3_db_filename(sql.sql(), "main"), ": ", what));
}

absl::Status RunInTransaction(Sql& sql, const std::string& text) {
  absl::Status status = sql.Run("BEGIN IMMEDIATE");
  if (status.ok()) status = sql.Run(text);
  if (status.ok()) status = sql.Run("COMMIT");
  if (!status.ok() && sql.InTransaction()) {
    sql.Run("ROLLBACK").IgnoreError();  // the first error tells more
  }
  return status;
}

// What there is, as (name, definition).
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

// A changed definition would be a schema that was not written by us. There may
// be more: an operator's own view does no harm.
absl::Status CheckDefinitions(Sql& sql, absl::Span<const std::string> steps) {
  const absl::StatusOr<std::unique_ptr<Sql>> model =
      Sql::Open(":memory:", /*create=*/true);
  if (!model.ok()) return model.status();
  for (const std::string& step : steps) {
    if (absl::Status status = (*model)->Run(step); !status.ok()) return status;
  }
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

absl::Span<const std::string> StoreSchemaSteps() {
  static const auto& steps = *new std::vector<std::string>{
      absl::StrCat(kVersion1, RouteView()),
  };
  return steps;
}

absl::StatusOr<bool> PrepareStoreSchema(Sql& sql, const std::string& first_rows,
                                        absl::Span<const std::string> steps) {
  const auto version = sql.Integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const auto application = sql.Integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const auto entries = sql.Integer("SELECT count(*) FROM sqlite_schema");
  if (!entries.ok()) return entries.status();

  const auto newest = static_cast<int64_t>(steps.size());
  if (*version == 0 && *application == 0 && *entries == 0) {
    std::string all;
    for (const std::string& step : steps) absl::StrAppend(&all, step, ";");
    absl::StrAppend(&all, first_rows,
                    "; PRAGMA application_id = ", kStoreApplicationId,
                    "; PRAGMA user_version = ", newest);
    if (absl::Status s = RunInTransaction(sql, all); !s.ok()) return s;
    return true;
  }
  if (*application != kStoreApplicationId || *version < 1) {
    return Corrupt(sql, "is not a store of PlanB Lookup, or a damaged one");
  }
  if (*version > newest) {
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_TOO_NEW",
                 absl::StrCat(sqlite3_db_filename(sql.sql(), "main"),
                              ": has schema version ", *version,
                              ", and this server knows versions up to ", newest,
                              " only: run the server that wrote it, or a newer"
                              " one"));
  }
  for (int64_t at = *version; at < newest; ++at) {
    const std::string step = absl::StrCat(steps[static_cast<size_t>(at)],
                                          "; PRAGMA user_version = ", at + 1);
    if (absl::Status s = RunInTransaction(sql, step); !s.ok()) return s;
  }
  if (absl::Status s = CheckDefinitions(sql, steps); !s.ok()) return s;
  return false;
}

}  // namespace planb::server
