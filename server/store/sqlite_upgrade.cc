// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_upgrade.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lpm/routes/table_digest.h"
#include "server/store/sqlite_reader.h"
#include "server/store/sqlite_writer.h"
#include "server/store/store_entry.h"
#include "server/store/store_snapshot.h"

namespace planb::server {
namespace {

// A table of version 1 with what its row says of its other rows.
struct OldTable {
  StoredTable table;
  std::string digest, objects_digest;
  uint64_t first_request = 0, next_request = 0;
  TableDigest routes, objects;  // as read
};

// Reads the rows of a database of version 1.
class Version1 {
 public:
  explicit Version1(Sql& sql) : sql_(sql) {}

  absl::Status Read() {
    absl::Status status = ReadStore();
    if (status.ok()) status = ReadTables();
    if (status.ok()) status = ReadNextHops();
    if (status.ok()) status = ReadGroups();
    if (status.ok()) status = ReadRoutes();
    if (status.ok()) status = ReadRequests();
    return status.ok() ? Verify() : status;
  }

  const StoreRow& store() const { return store_; }
  std::map<int64_t, OldTable>& tables() { return tables_; }

 private:
  using Row = SqlStatement;

  absl::Status ForEach(const char* text,
                       absl::FunctionRef<absl::Status(const Row&)> read) {
    auto statement = sql_.Prepare(text);
    if (!statement.ok()) return statement.status();
    return ForEachRow(sql_, *statement, read);
  }

  // The same for the rows of tables, with their table.
  absl::Status ForEachOfTable(
      const char* text,
      absl::FunctionRef<absl::Status(const Row&, OldTable&)> read) {
    return ForEach(text, [&](const Row& row) -> absl::Status {
      const auto table = tables_.find(row.Integer(0));
      if (table != tables_.end()) return read(row, table->second);
      return absl::DataLossError(absl::StrCat("there are rows of table ",
                                              row.Integer(0),
                                              ", which does not exist"));
    });
  }

  absl::Status ReadStore();
  absl::Status ReadTables();
  absl::Status ReadNextHops();
  absl::Status ReadGroups();
  absl::Status ReadRoutes();
  absl::Status ReadRequests();
  absl::Status Verify() const;

  Sql& sql_;
  StoreRow store_;
  uint64_t tables_sum_ = 0;
  std::map<int64_t, OldTable> tables_;
};

absl::Status Version1::ReadStore() {
  bool right = false;
  absl::Status status = ForEach(
      "SELECT store_id, sequence, generation_floor, tables_sum, checksum"
      " FROM store",
      [&](const Row& row) {
        store_ = {.store_id = row.Unsigned(0),
                  .sequence = row.Unsigned(1),
                  .generation_floor = row.Unsigned(2)};
        tables_sum_ = row.Unsigned(3);
        right = row.Unsigned(4) ==
                HashFields("store", store_.store_id, store_.sequence,
                           store_.generation_floor, tables_sum_);
        return absl::OkStatus();
      });
  if (!status.ok() || right) return status;
  return DamagedStore(sql_, "the row of store is damaged");
}

absl::Status Version1::ReadTables() {
  uint64_t sum = 0;
  absl::Status status = ForEach(
      "SELECT id, name, generation, writer_epoch, digest, objects_digest,"
      " first_request, next_request FROM tables ORDER BY id",
      [&](const Row& row) {
        OldTable& old = tables_[row.Integer(0)];
        old.table = {.name = std::string(row.Bytes(1)),
                     .generation = row.Unsigned(2),
                     .writer_epoch = row.Unsigned(3)};
        old.digest = std::string(row.Bytes(4));
        old.objects_digest = std::string(row.Bytes(5));
        old.first_request = row.Unsigned(6);
        old.next_request = row.Unsigned(7);
        sum +=
            HashFields("table", row.Integer(0), old.table.name,
                       old.table.generation, old.table.writer_epoch, old.digest,
                       old.objects_digest, old.first_request, old.next_request);
        return absl::OkStatus();
      });
  if (!status.ok() || sum == tables_sum_) return status;
  return DamagedStore(sql_, "a row of tables is damaged or missing");
}

absl::Status Version1::ReadNextHops() {
  return ForEachOfTable(
      "SELECT table_id, id, gateway, interface, weight, label FROM next_hops"
      " ORDER BY table_id, id",
      [](const Row& row, OldTable& old) -> absl::Status {
        NextHop next_hop = {.id = static_cast<NextHopId>(row.Integer(1)),
                            .interface = std::string(row.Bytes(3)),
                            .weight = static_cast<uint32_t>(row.Integer(4)),
                            .label = std::string(row.Bytes(5))};
        if (!row.IsNull(2)) {
          const auto gateway = Address::Parse(row.Bytes(2));
          if (!gateway.ok()) return gateway.status();
          next_hop.gateway = *gateway;
        }
        old.objects.Add(next_hop);
        old.table.next_hops.push_back(std::move(next_hop));
        return absl::OkStatus();
      });
}

// Such as "7*1 8*3": next hop 7 with weight 1, next hop 8 with weight 3.
absl::Status ParseMembers(absl::string_view text,
                          std::vector<NextHopGroup::Member>& members) {
  if (text.empty()) return absl::OkStatus();
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(part, '*');
    NextHopGroup::Member& member = members.emplace_back();
    if (fields.size() != 2 || !absl::SimpleAtoi(fields[0], &member.next_hop) ||
        !absl::SimpleAtoi(fields[1], &member.weight)) {
      return absl::DataLossError("a group has invalid members");
    }
  }
  return absl::OkStatus();
}

absl::Status Version1::ReadGroups() {
  return ForEachOfTable(
      "SELECT table_id, id, members, label FROM next_hop_groups"
      " ORDER BY table_id, id",
      [](const Row& row, OldTable& old) -> absl::Status {
        NextHopGroup group = {.id = static_cast<NextHopId>(row.Integer(1)),
                              .label = std::string(row.Bytes(3))};
        absl::Status status = ParseMembers(row.Bytes(2), group.members);
        if (!status.ok()) return status;
        old.objects.Add(group);
        old.table.groups.push_back(std::move(group));
        return absl::OkStatus();
      });
}

// An address has its packed bytes without trailing zeros.
absl::Status Version1::ReadRoutes() {
  return ForEachOfTable(
      "SELECT table_id, family, address, length, next_hop FROM routes"
      " ORDER BY table_id, family, address, length",
      [](const Row& row, OldTable& old) -> absl::Status {
        std::string packed(row.Bytes(2));
        packed.resize(row.Integer(1) == 4 ? 4 : 16, '\0');
        const auto address = Address::FromPacked(packed);
        const int64_t length = row.Integer(3);
        const auto prefix = Prefix::Create(
            *address,
            length < 0 || length > 128 ? -1 : static_cast<int>(length));
        if (!prefix.ok()) return prefix.status();
        const Route route = {*prefix, static_cast<NextHopId>(row.Integer(4))};
        old.routes.Add(route);
        old.table.routes.push_back(route);
        return absl::OkStatus();
      });
}

absl::Status Version1::ReadRequests() {
  return ForEachOfTable(
      "SELECT table_id, number, request_id, fingerprint, generation, added,"
      " changed, removed, unchanged, next_hops_added, next_hops_changed,"
      " next_hops_removed, digest, accepted_nanos, checksum FROM requests"
      " ORDER BY table_id, number",
      [](const Row& row, OldTable& old) -> absl::Status {
        const uint64_t checksum = HashFields(
            "request", row.Integer(0), row.Unsigned(1), row.Bytes(2),
            row.Unsigned(3), row.Unsigned(4), row.Unsigned(5), row.Unsigned(6),
            row.Unsigned(7), row.Unsigned(8), row.Unsigned(9), row.Unsigned(10),
            row.Unsigned(11), row.Bytes(12), row.Integer(13));
        if (row.Unsigned(14) != checksum ||
            row.Unsigned(1) != old.first_request + old.table.requests.size()) {
          return absl::DataLossError(
              absl::StrCat("an answered request of table ", old.table.name,
                           " is damaged or missing"));
        }
        old.table.requests.push_back(
            {.request_id = std::string(row.Bytes(2)),
             .fingerprint = row.Unsigned(3),
             .outcome = {.generation = row.Unsigned(4),
                         .counts = {.added = row.Unsigned(5),
                                    .changed = row.Unsigned(6),
                                    .removed = row.Unsigned(7),
                                    .unchanged = row.Unsigned(8),
                                    .next_hops_added = row.Unsigned(9),
                                    .next_hops_changed = row.Unsigned(10),
                                    .next_hops_removed = row.Unsigned(11)},
                         .digest = std::string(row.Bytes(12)),
                         .accepted = absl::FromUnixNanos(row.Integer(13))}});
        return absl::OkStatus();
      });
}

absl::Status Version1::Verify() const {
  for (const auto& [id, old] : tables_) {
    if (old.routes.ToString() != old.digest ||
        old.objects.ToString() != old.objects_digest ||
        old.first_request + old.table.requests.size() != old.next_request) {
      return DamagedStore(sql_,
                          absl::StrCat("the rows of table ", old.table.name,
                                       " are not those that were"
                                       " committed"));
    }
  }
  return absl::OkStatus();
}

// Writes a snapshot of a table and sets `head` to it.
absl::Status WriteSnapshot(Sql& sql, SqliteWriter& writer, OldTable old,
                           TableHead& head) {
  UpdateBatch contents = {.replacement = std::move(old.table.routes),
                          .next_hops = std::move(old.table.next_hops),
                          .groups = std::move(old.table.groups)};
  constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
  TableVersion version = {
      .generation = old.table.generation,
      .writer_epoch = old.table.writer_epoch,
      .rib = Rib({.max_routes = kUnlimited, .max_next_hops = kUnlimited}),
      .requests = std::move(old.table.requests)};
  const auto applied = version.rib.Apply(contents);
  if (!applied.ok()) return DamagedStore(sql, applied.status().message());
  SnapshotSource source(old.table.name, std::move(version));
  TableRow& row = head.row;
  row.snapshot_checksum = row.snapshot;
  for (;; ++row.parts) {
    const auto part = source.Next();
    if (!part.ok()) return DamagedStore(sql, part.status().message());
    if (part->empty()) break;
    absl::Status status = writer.WritePart(row.snapshot, row.parts, *part);
    if (!status.ok()) return status;
    row.snapshot_checksum = ChainChecksum(*part, row.snapshot_checksum);
  }
  head.next = row.first;
  head.chain = row.base;
  return writer.WriteTable(row);
}

}  // namespace

absl::Status ConvertVersion1(
    Sql& sql, const std::string& newest,
    absl::FunctionRef<absl::Status(const StoreRow&)> accept) {
  Version1 old(sql);
  absl::Status status = old.Read();
  if (status.ok()) status = accept(old.store());
  if (status.ok()) {
    status = sql.Run(absl::StrCat(
        "DROP VIEW route_list; DROP TABLE routes; DROP TABLE next_hops;"
        " DROP TABLE next_hop_groups; DROP TABLE requests; DROP TABLE tables;"
        " DROP TABLE store; ",
        newest));
  }
  if (!status.ok()) return status;
  const auto writer = SqliteWriter::Create(sql);
  if (!writer.ok()) return writer.status();
  StoreRow store = old.store();
  ++store.sequence;
  int64_t next_id = 1;
  for (auto& [unused, table] : old.tables()) {
    const int64_t id = next_id++;
    TableHead head = {.row = {.id = id,
                              .name = table.table.name,
                              .generation = table.table.generation,
                              .snapshot = static_cast<uint64_t>(id)}};
    status = WriteSnapshot(sql, **writer, std::move(table), head);
    if (!status.ok()) return status;
    store.heads_sum += head.Checksum();
  }
  return (*writer)->WriteStore(store);
}

absl::Status ConvertVersion2(
    Sql& sql, const std::string& newest,
    absl::FunctionRef<absl::Status(const StoreRow&)> accept) {
  absl::Status status = sql.Run(absl::StrCat(
      "CREATE TEMP TABLE old AS SELECT * FROM tables;"
      " DROP VIEW log_list; DROP VIEW snapshot_list; DROP TABLE tables; ",
      newest,
      "; INSERT INTO tables SELECT *, 0 FROM old; DROP TABLE temp.old"));
  if (!status.ok()) return DamagedStore(sql, status.message());
  // The checksums are those of before: what they cover is verified.
  const absl::StatusOr<StoreState> state = ReadStoreState(sql);
  return state.ok() ? accept(state->row) : state.status();
}

}  // namespace planb::server
