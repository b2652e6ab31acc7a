// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_rows.h"

#include <initializer_list>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"

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

// Each row of `tables` with the end of its log.
constexpr char kReadTables[] = R"sql(
SELECT t.*, log.id, checksum, substr(entry, 1, 8),
  (SELECT total(length(entry)) FROM log WHERE id BETWEEN low AND high),
  (SELECT total(length(bytes)) FROM snapshots
   WHERE id BETWEEN snapshot << 24 AND ((snapshot + 1) << 24) - 1)
  FROM (SELECT *, (id << 43) | first AS low,
        (id << 43) | ((1 << 43) - 1) AS high FROM tables) AS t
  LEFT JOIN log ON log.id =
    (SELECT max(id) FROM log WHERE id BETWEEN low AND high)
)sql";

uint64_t Checksum(std::initializer_list<uint64_t> numbers,
                  absl::string_view text) {
  std::string bytes;
  for (const uint64_t number : numbers) AppendLittle(number, bytes);
  return Xxh3(absl::StrCat(bytes, text), 0);
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
  std::set<std::pair<std::string, std::string>> definitions;
  absl::Status status =
      sql.ForEach("SELECT name, sql FROM sqlite_schema",
                  [&definitions](const SqlStatement& row) {
                    definitions.emplace(row.Bytes(0), row.Bytes(1));
                    return absl::OkStatus();
                  });
  if (!status.ok()) return status;
  return definitions;
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
      return sql.Damaged(
          absl::StrCat("its schema is damaged: ", definition.first));
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t StoreRow::Checksum() const {
  return server::Checksum({store_id, sequence, generation_floor, heads_sum},
                          "");
}

uint64_t TableRow::Checksum() const {
  return server::Checksum(
      {static_cast<uint64_t>(id), generation, snapshot, parts,
       snapshot_checksum, first, base, uint64_t{prefix_lengths}, next, chain},
      name);
}

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
      return status.ok() ? WriteStoreRow(sql, first) : status;
    });
  }
  if (*application != kStoreApplicationId || *version < 1) {
    return sql.Damaged("is not a store of PlanB Lookup, or a damaged one");
  }
  if (*version != kStoreVersion) {
    return Error(
        absl::StatusCode::kFailedPrecondition,
        *version > kStoreVersion ? "STORE_TOO_NEW" : "STORE_TOO_OLD",
        absl::StrCat(sql.path(), ": has schema version ", *version,
                     ", and this server has version ", kStoreVersion,
                     ": run a server of that version, or start with an empty "
                     "store"));
  }
  return CheckDefinitions(sql);
}

absl::StatusOr<StoreRow> ReadStoreRow(Sql& sql) {
  StoreRow store;
  int rows = 0;
  bool right = true;
  absl::Status status = sql.ForEach(
      "SELECT store_id, sequence, generation_floor, heads_sum, checksum"
      " FROM store",
      [&](const SqlStatement& row) {
        ++rows;
        store = {.store_id = row.Unsigned(0),
                 .sequence = row.Unsigned(1),
                 .generation_floor = row.Unsigned(2),
                 .heads_sum = row.Unsigned(3)};
        right = row.Unsigned(4) == store.Checksum();
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (rows != 1 || !right) return sql.Damaged("the row of store is damaged");
  return store;
}

absl::StatusOr<TableRows> ReadTableRows(Sql& sql, const StoreRow& store) {
  TableRows tables;
  uint64_t sum = 0;
  absl::Status status =
      sql.ForEach(kReadTables, [&](const SqlStatement& row) -> absl::Status {
        TableRow table = {.id = row.Integer(0),
                          .name = std::string(row.Bytes(1)),
                          .generation = row.Unsigned(2),
                          .snapshot = row.Unsigned(3),
                          .parts = row.Unsigned(4),
                          .snapshot_checksum = row.Unsigned(5),
                          .first = row.Unsigned(6),
                          .base = row.Unsigned(7),
                          .prefix_lengths = row.Integer(8) == 1};
        table.next = table.first;
        table.chain = table.base;
        table.end_generation = table.generation;
        bool right = row.Unsigned(8) <= 1 && table.id >= 1 &&
                     static_cast<uint64_t>(table.id) <= kMaxTableId &&
                     table.first < uint64_t{1} << kEntryBits &&
                     table.snapshot < uint64_t{1} << (62 - kPartBits);
        if (!row.IsNull(11)) {
          table.next =
              static_cast<uint64_t>(row.Integer(11) - EntryKey(table.id, 0)) +
              1;
          table.chain = row.Unsigned(12);
          ByteCursor generation(row.Bytes(13));
          right = right && generation.ReadLittle(&table.end_generation);
        }
        table.log_bytes = row.Unsigned(14);
        table.snapshot_bytes = row.Unsigned(15);
        sum += table.Checksum();
        if (right && tables.try_emplace(table.name, table).second) {
          return absl::OkStatus();
        }
        return absl::DataLossError(
            absl::StrCat("the row of table ", table.id, ", ", table.name,
                         ", or the last entry of its log is damaged"));
      });
  if (!status.ok()) return status;
  if (sum == store.heads_sum) return tables;
  return sql.Damaged(
      "a row of tables or the last entry of a log is damaged or missing, or"
      " is not the newest");
}

absl::Status WriteStoreRow(Sql& sql, const StoreRow& row) {
  return sql.Change("REPLACE INTO store VALUES (1, ?, ?, ?, ?, ?)",
                    row.store_id, row.sequence, row.generation_floor,
                    row.heads_sum, row.Checksum());
}

absl::Status WriteTableRow(Sql& sql, const TableRow& row) {
  return sql.Change("REPLACE INTO tables VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row.id, absl::string_view(row.name), row.generation,
                    row.snapshot, row.parts, row.snapshot_checksum, row.first,
                    row.base, int64_t{row.prefix_lengths});
}

absl::Status WritePart(Sql& sql, uint64_t snapshot, uint64_t part,
                       absl::string_view bytes) {
  return sql.Change("INSERT INTO snapshots VALUES (?, ?)",
                    PartKey(snapshot, part), SqlBlob{bytes});
}

absl::Status WriteEntry(Sql& sql, absl::string_view entry, TableRow& row) {
  const int64_t key = EntryKey(row.id, row.next);
  if (key >= LastEntryKey(row.id)) {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 "the log has no more numbers");
  }
  row.chain = Xxh3(entry, row.chain);
  row.log_bytes += entry.size();
  ++row.next;
  return sql.Change("INSERT INTO log VALUES (?, ?, ?)", key, row.chain,
                    SqlBlob{entry});
}

absl::StatusOr<TableRow> NewTableRow(Sql& sql, const std::string& name,
                                     uint64_t generation) {
  // The lowest id such that neither a table has it nor a row of the log.
  int64_t id = 0;
  absl::Status status = sql.ForEach(
      "WITH RECURSIVE free(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM free"
      " WHERE id IN (SELECT id FROM tables) OR EXISTS (SELECT 1 FROM log"
      " WHERE log.id BETWEEN free.id << 43 AND"
      " (free.id << 43) | ((1 << 43) - 1)))"
      " SELECT max(id) FROM free",
      [&id](const SqlStatement& row) {
        id = row.Integer(0);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (static_cast<uint64_t>(id) > kMaxTableId) {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 "all ids of tables are in use");
  }
  TableRow row = {.id = id,
                  .name = name,
                  .generation = generation,
                  .end_generation = generation};
  // Tells the log from one that had the id before.
  row.chain = row.base =
      Checksum({static_cast<uint64_t>(id), generation}, name);
  return row;
}

absl::StatusOr<bool> DeleteLeftovers(Sql& sql) {
  // The rows that are kept, as ranges of keys. The last range ends each map.
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  std::map<int64_t, int64_t> log = {{kEnd, kEnd}};
  std::map<int64_t, int64_t> snapshots = {{kEnd, kEnd}};
  absl::Status status = sql.ForEach(
      "SELECT id, first, snapshot FROM tables", [&](const SqlStatement& row) {
        const int64_t id = row.Integer(0);
        const uint64_t snapshot = row.Unsigned(2);
        log[EntryKey(id, row.Unsigned(1))] = LastEntryKey(id);
        snapshots[PartKey(snapshot, 0)] = PartKey(snapshot + 1, 0);
        return absl::OkStatus();
      });
  // SQLite reads all pages of the rows that it deletes.
  constexpr int64_t kStepBytes = 1 << 20;
  struct Kept {
    const char* list;
    const char* remove;
    const std::map<int64_t, int64_t>& ranges;
  };
  for (const Kept& kept :
       {Kept{"SELECT id, length(entry) FROM log WHERE id >= ? AND id < ?"
             " ORDER BY id LIMIT 1000",
             "DELETE FROM log WHERE id >= ? AND id < ?", log},
        Kept{"SELECT id, length(bytes) FROM snapshots WHERE id >= ? AND id < ?"
             " ORDER BY id LIMIT 1000",
             "DELETE FROM snapshots WHERE id >= ? AND id < ?", snapshots}}) {
    int64_t from = 0;
    for (const auto& [first, last] : kept.ranges) {
      int64_t end = from;
      int64_t bytes = 0;
      const auto add = [&](const SqlStatement& row) {
        if (bytes < kStepBytes) end = row.Integer(0) + 1;
        bytes += row.Integer(1);
        return absl::OkStatus();
      };
      if (status.ok()) status = sql.ForEach(kept.list, add, from, first);
      if (status.ok() && end > from) {
        status = sql.Change(kept.remove, from, end);
      }
      if (!status.ok()) return status;
      if (end > from) return false;
      from = last;
    }
  }
  return true;
}

}  // namespace planb::server
