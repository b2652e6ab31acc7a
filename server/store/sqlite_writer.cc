// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_writer.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

// Rows are deleted until they had so many bytes. One row may have more.
constexpr int64_t kDeletedBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteWriter>> SqliteWriter::Create(Sql& sql) {
  std::unique_ptr<SqliteWriter> writer(new SqliteWriter);
  const std::pair<std::optional<SqlStatement>*, const char*> texts[] = {
      {&writer->put_store_, "REPLACE INTO store VALUES (1, ?, ?, ?, ?, ?)"},
      {&writer->put_table_,
       "REPLACE INTO tables VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&writer->delete_table_, "DELETE FROM tables WHERE id = ?"},
      {&writer->put_entry_, "INSERT INTO log VALUES (?, ?, ?)"},
      {&writer->put_part_, "INSERT INTO snapshots VALUES (?, ?)"},
      {&writer->log_.next,
       "SELECT id FROM log WHERE id >= ? ORDER BY id LIMIT 1"},
      {&writer->log_.sizes,
       "SELECT id, length(entry) FROM log WHERE id BETWEEN ? AND ? ORDER BY id"
       " LIMIT 1000"},
      {&writer->log_.remove, "DELETE FROM log WHERE id BETWEEN ? AND ?"},
      {&writer->snapshots_.next,
       "SELECT id FROM snapshots WHERE id >= ? ORDER BY id LIMIT 1"},
      {&writer->snapshots_.sizes,
       "SELECT id, length(bytes) FROM snapshots WHERE id BETWEEN ? AND ?"
       " ORDER BY id LIMIT 1000"},
      {&writer->snapshots_.remove,
       "DELETE FROM snapshots WHERE id BETWEEN ? AND ?"},
  };
  for (const auto& [statement, text] : texts) {
    absl::StatusOr<SqlStatement> prepared = sql.Prepare(text, /*kept=*/true);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return writer;
}

absl::Status SqliteWriter::WriteStore(const StoreRow& row) {
  return put_store_->Run(row.store_id, row.sequence, row.generation_floor,
                         row.heads_sum, row.Checksum());
}

absl::Status SqliteWriter::WriteTable(const TableRow& row) {
  return put_table_->Run(row.id, absl::string_view(row.name), row.generation,
                         row.snapshot, row.parts, row.snapshot_checksum,
                         row.first, row.base,
                         int64_t{row.prefix_lengths ? 1 : 0});
}

absl::Status SqliteWriter::DeleteTable(int64_t id) {
  return delete_table_->Run(id);
}

absl::Status SqliteWriter::Append(absl::string_view entry, TableHead& head) {
  const int64_t key = EntryKey(head.row.id, head.next);
  if (key >= LastEntryKey(head.row.id)) {
    return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                 "the log has no more numbers");
  }
  const uint64_t checksum = ChainChecksum(entry, head.chain);
  absl::Status status = put_entry_->Run(key, checksum, SqlBlob{entry});
  if (!status.ok()) return status;
  head.chain = checksum;
  head.log_bytes += entry.size();
  ++head.next;
  return absl::OkStatus();
}

absl::Status SqliteWriter::WritePart(uint64_t snapshot, uint64_t part,
                                     absl::string_view bytes) {
  return put_part_->Run(PartKey(snapshot, part), SqlBlob{bytes});
}

absl::StatusOr<std::optional<int64_t>> SqliteWriter::NextKey(Sweep& sweep,
                                                             int64_t from) {
  sweep.next->BindAll(from);
  const absl::StatusOr<bool> row = sweep.next->Step();
  if (!row.ok()) return row.status();
  if (!*row) return std::nullopt;
  const int64_t key = sweep.next->Integer(0);
  sweep.next->Reset();
  return key;
}

absl::StatusOr<int64_t> SqliteWriter::FreeTableId(const StoreState& state) {
  std::set<int64_t> used;
  for (const auto& [name, head] : state.tables) used.insert(head.row.id);
  for (int64_t id = 1; id <= static_cast<int64_t>(kMaxTableId); ++id) {
    if (used.contains(id)) continue;
    const auto key = NextKey(log_, EntryKey(id, 0));
    if (!key.ok()) return key.status();
    if (!key->has_value() || **key > LastEntryKey(id)) return id;
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
               "all ids of tables are in use");
}

absl::StatusOr<std::optional<Leftovers>> SqliteWriter::SomeOf(Sweep& sweep,
                                                              int64_t first,
                                                              int64_t last) {
  Leftovers found = {.first = first, .last = first};
  int64_t bytes = 0;
  sweep.sizes->BindAll(first, last);
  while (bytes < kDeletedBytes) {
    const absl::StatusOr<bool> row = sweep.sizes->Step();
    if (!row.ok()) return row.status();
    if (!*row) return found;
    found.last = sweep.sizes->Integer(0);
    bytes += sweep.sizes->Integer(1);
  }
  sweep.sizes->Reset();
  return found;
}

absl::StatusOr<std::optional<Leftovers>> SqliteWriter::FindLeftovers(
    const StoreState& state) {
  std::map<int64_t, uint64_t> first_entries;  // by the id of the table
  std::set<uint64_t> snapshots;
  for (const auto& [name, head] : state.tables) {
    first_entries[head.row.id] = head.row.first;
    snapshots.insert(head.row.snapshot);
  }
  for (int64_t from = 0;;) {
    const auto key = NextKey(log_, from);
    if (!key.ok()) return key.status();
    if (!key->has_value()) break;
    const int64_t table = **key >> kEntryBits;
    const auto kept = first_entries.find(table);
    int64_t last = LastEntryKey(table);
    if (kept != first_entries.end()) {
      const int64_t first = EntryKey(table, kept->second);
      if (**key >= first) {
        from = last;  // the last number is never used
        continue;
      }
      last = first - 1;
    }
    auto found = SomeOf(log_, **key, last);
    if (found.ok()) (*found)->log = true;
    return found;
  }
  for (int64_t from = 0;;) {
    const auto key = NextKey(snapshots_, from);
    if (!key.ok()) return key.status();
    if (!key->has_value()) return std::nullopt;
    const uint64_t snapshot = static_cast<uint64_t>(**key) >> kPartBits;
    const int64_t end = PartKey(snapshot + 1, 0);
    if (!snapshots.contains(snapshot)) {
      return SomeOf(snapshots_, **key, end - 1);
    }
    from = end;
  }
}

absl::Status SqliteWriter::Delete(const Leftovers& leftovers) {
  Sweep& sweep = leftovers.log ? log_ : snapshots_;
  return sweep.remove->Run(leftovers.first, leftovers.last);
}

}  // namespace planb::server
