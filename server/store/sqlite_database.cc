// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_database.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/store/commit_watermark.h"
#include "server/store/store_replay.h"

namespace planb::server {
namespace {

// How long a commit waits for the lock of another process, such as an
// operator's shell.
constexpr int kBusyMillis = 5000;
constexpr size_t kPartBytes = 512 << 10;

// No checks and no indexes: the store verifies all rows when it reads them. No
// view: with one, quick_check may leave the list of free pages out.
constexpr char kSchema[] = R"sql(
CREATE TABLE store (
  id INTEGER PRIMARY KEY,
  store_id INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  generation_floor INTEGER NOT NULL,
  about TEXT NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE tables (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  remote_id INTEGER NOT NULL,
  prefix_lengths INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  parts INTEGER NOT NULL,
  next INTEGER NOT NULL,
  chain INTEGER NOT NULL,
  snapshot_bytes INTEGER NOT NULL,
  log_bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE log (
  id INTEGER PRIMARY KEY,
  entry BLOB NOT NULL
) STRICT;
)sql";

constexpr int64_t kSchemaEntries = 3;

constexpr char kDeleteLog[] = "DELETE FROM log WHERE id >= ? AND id < ?";

// The key in `log`, which orders rows by table and number.
constexpr int64_t Key(int64_t table, uint64_t number) {
  return static_cast<int64_t>(static_cast<uint64_t>(table) << 43 | number);
}

absl::Status MakeSchema(Sql& sql, uint64_t store_id) {
  absl::Status status =
      sql.Run(absl::StrCat("BEGIN IMMEDIATE;", kSchema,
                           "PRAGMA application_id = ", kStoreApplicationId,
                           "; PRAGMA user_version = ", kStoreVersion));
  if (status.ok()) status = WriteState(sql, {.store_id = store_id});
  if (status.ok()) status = sql.Run("COMMIT");
  return status;
}

absl::Status PrepareSchema(Sql& sql, uint64_t new_store_id) {
  const auto version = sql.Integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const auto application = sql.Integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const auto entries = sql.Integer("SELECT count(*) FROM sqlite_schema");
  if (!entries.ok()) return entries.status();
  if (*version == 0 && *application == 0 && *entries == 0) {
    return MakeSchema(sql, new_store_id);
  }
  if (*application != kStoreApplicationId || *version < 1) {
    return sql.Damaged("is not a store of PlanB Lookup, or a damaged one");
  }
  if (*version == kStoreVersion && *entries == kSchemaEntries) {
    return absl::OkStatus();
  }
  if (*version == kStoreVersion) {
    return sql.Damaged("has views, triggers or tables that no server makes");
  }
  return Error(absl::StatusCode::kFailedPrecondition,
               *version > kStoreVersion ? "STORE_TOO_NEW" : "STORE_TOO_OLD",
               absl::StrCat(sql.path(), ": has schema version ", *version,
                            ", and this server has version ", kStoreVersion,
                            ": run a server of that version, or start with an "
                            "empty store"));
}

absl::StatusOr<StoredTable> ReadTable(Sql& sql, const TableRow& row) {
  LogReplay replay;
  replay.table().name = row.name;
  replay.table().id = row.remote_id;
  replay.table().fib.prefix_lengths = row.prefix_lengths;
  replay.Reserve(row.snapshot_bytes);
  uint64_t number = 0;
  uint64_t chain = 0;
  absl::Status status = sql.ForEach(
      "SELECT id, entry FROM log WHERE id >= ? AND id < ? ORDER BY id",
      [&](const SqlRow& entry) -> absl::Status {
        const bool missing = entry.Integer(0) != Key(row.id, number);
        chain = Xxh3(entry.Bytes(1), chain);
        const absl::Status read =
            missing ? absl::DataLossError("is missing")
                    : replay.Read(entry.Bytes(1), number < row.parts);
        if (read.ok()) ++number;
        return read.ok() ? read
                         : absl::DataLossError(absl::StrCat(
                               "entry ", number, " of the log of table ",
                               row.name, " ", read.message()));
      },
      Key(row.id, 0), Key(row.id + 1, 0));
  if (!status.ok()) return status;
  if (number != row.next || chain != row.chain ||
      replay.table().generation != row.generation) {
    return sql.Damaged(absl::StrCat("the log of table ", row.name,
                                    " is not the one that was committed"));
  }
  absl::StatusOr<StoredTable> table = replay.Finish();
  return table.ok() ? std::move(table) : sql.Damaged(table.status().message());
}

}  // namespace

uint64_t StoreState::Checksum() const {
  std::string bytes;
  const auto add = [&bytes](std::initializer_list<uint64_t> numbers,
                            const std::string& text) {
    for (const uint64_t number : numbers) AppendLittle(number, bytes);
    absl::StrAppend(&bytes, text, absl::string_view("\0", 1));
  };
  add({store_id, sequence, generation_floor}, about);
  for (const auto& [name, row] : tables) {
    add({static_cast<uint64_t>(row.id), row.remote_id,
         uint64_t{row.prefix_lengths}, row.generation, row.parts, row.next,
         row.chain, row.snapshot_bytes, row.log_bytes},
        name);
  }
  return Xxh3(bytes, 0);
}

absl::StatusOr<std::unique_ptr<Sql>> OpenDatabase(const DatabaseOptions& of,
                                                  uint64_t new_store_id) {
  auto opened = Sql::Open(of.path, StoreFileBytes(of.path) == 0, of.vfs);
  if (!opened.ok()) return opened.status();
  Sql& sql = **opened;
  sqlite3_busy_timeout(sql.sql(), kBusyMillis);
  KeepLog(sql, true);
  if (sqlite3_db_readonly(sql.sql(), "main") == 1) {
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                 absl::StrCat(of.path, ": is not writable"));
  }
  const auto mode = sql.Text("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") {
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                 absl::StrCat(of.path,
                              ": this file system does not support a"
                              " write-ahead log (journal mode ",
                              *mode, ")"));
  }
  absl::Status status = sql.Run(absl::StrCat(
      "PRAGMA synchronous = ", StoreSyncName(of.sync),
      "; PRAGMA wal_autocheckpoint = ", of.checkpoint_pages,
      // After a bulk load the log is truncated to this size. A log of this size
      // is kept, because overwriting a file syncs faster than growing it.
      "; PRAGMA journal_size_limit = ", 64 << 20,
      // In KiB. A larger bulk load spills into the log, in order.
      "; PRAGMA cache_size = -16384",
      // Debian's default would overwrite every page that a deleted table frees.
      "; PRAGMA secure_delete = OFF"));
  if (status.ok()) status = PrepareSchema(sql, new_store_id);
  if (!status.ok()) return status;
  return opened;
}

void KeepLog(Sql& sql, bool keep) {
  sqlite3_db_config(sql.sql(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0,
                    nullptr);
}

absl::StatusOr<StoreState> ReadState(Sql& sql) {
  StoreState state;
  uint64_t checksum = 0;
  absl::Status status = sql.ForEach(
      "SELECT store_id, sequence, generation_floor, about, checksum FROM store",
      [&](const SqlRow& row) {
        state = {.store_id = row.Unsigned(0),
                 .sequence = row.Unsigned(1),
                 .generation_floor = row.Unsigned(2),
                 .about = std::string(row.Bytes(3))};
        checksum = row.Unsigned(4);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  status = sql.ForEach("SELECT * FROM tables", [&](const SqlRow& row) {
    TableRow table = {.id = row.Integer(0),
                      .name = std::string(row.Bytes(1)),
                      .remote_id = row.Unsigned(2),
                      .prefix_lengths = row.Integer(3) != 0,
                      .generation = row.Unsigned(4),
                      .parts = row.Unsigned(5),
                      .next = row.Unsigned(6),
                      .chain = row.Unsigned(7),
                      .snapshot_bytes = row.Unsigned(8),
                      .log_bytes = row.Unsigned(9)};
    state.tables.emplace(table.name, std::move(table));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (state.Checksum() == checksum) return state;
  return sql.Damaged(
      "a row of store or tables is damaged, missing or not the newest");
}

absl::StatusOr<std::vector<StoredTable>> ReadTables(Sql& sql,
                                                    const StoreState& state) {
  // A page that is in use and listed as free would be written over.
  const auto structure = sql.Text("PRAGMA quick_check(1)");
  if (!structure.ok()) return structure.status();
  if (*structure != "ok") return sql.Damaged(*structure);
  std::vector<StoredTable> stored;
  for (const auto& [name, row] : state.tables) {
    auto table = ReadTable(sql, row);
    if (!table.ok()) return table.status();
    stored.push_back(*std::move(table));
  }
  return stored;
}

absl::Status WriteState(Sql& sql, const StoreState& state) {
  return sql.Change("REPLACE INTO store VALUES (1, ?, ?, ?, ?, ?)",
                    state.store_id, state.sequence, state.generation_floor,
                    absl::string_view(state.about), state.Checksum());
}

absl::Status WriteTableRow(Sql& sql, const TableRow& row) {
  return sql.Change("REPLACE INTO tables VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row.id, absl::string_view(row.name), row.remote_id,
                    int64_t{row.prefix_lengths}, row.generation, row.parts,
                    row.next, row.chain, row.snapshot_bytes, row.log_bytes);
}

absl::Status AppendRow(Sql& sql, absl::string_view entry, TableRow& row) {
  row.chain = Xxh3(entry, row.chain);
  return sql.Change("INSERT INTO log VALUES (?, ?)", Key(row.id, row.next++),
                    SqlBlob{entry});
}

absl::Status PutTable(Sql& sql, TableRow row, const TableContents& contents,
                      StoreState& state) {
  if (row.id == 0) {
    // The lowest that is free: keys have 20 bits for it.
    std::set<int64_t> used;
    for (const auto& [name, other] : state.tables) used.insert(other.id);
    for (row.id = 1; used.contains(row.id);) ++row.id;
  }
  row.generation = contents.generation;
  row.next = row.chain = row.snapshot_bytes = row.log_bytes = 0;
  absl::Status status =
      sql.Change(kDeleteLog, Key(row.id, 0), Key(row.id + 1, 0));
  if (status.ok()) {
    status = ForEachPart(contents, kPartBytes, [&](absl::string_view part) {
      row.snapshot_bytes += part.size();
      return AppendRow(sql, part, row);
    });
  }
  row.parts = row.next;
  if (status.ok()) status = WriteTableRow(sql, row);
  state.tables.insert_or_assign(row.name, std::move(row));
  return status;
}

absl::Status RemoveTable(Sql& sql, const std::string& name, StoreState& state) {
  const auto row = state.tables.find(name);
  const int64_t id = row->second.id;
  absl::Status status = sql.Change("DELETE FROM tables WHERE id = ?", id);
  if (status.ok()) status = sql.Change(kDeleteLog, Key(id, 0), Key(id + 1, 0));
  state.tables.erase(row);
  return status;
}

}  // namespace planb::server
