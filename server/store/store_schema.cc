// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_schema.h"

#include <endian.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// Each row of routes, next hops, groups and requests has the id of its table.
// There are no foreign keys and checks, because they would cost a lookup for
// each row, and the store verifies all rows when it reads them.
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

// A view for operators. SQLite has no function that formats an address, nor one
// that parses a hexadecimal digit.
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

absl::Status Wrong(absl::string_view message) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
}

// Hashes text, so that the result is the same on any machine. A string has its
// length before it, so that two different lists of fields never give the same
// text.
template <typename... Fields>
uint64_t Hash(const Fields&... fields) {
  std::string text;
  const auto append = [&text](const auto& field) {
    if constexpr (std::is_convertible_v<decltype(field), absl::string_view>) {
      absl::StrAppend(&text, absl::string_view(field).size(), ":",
                      absl::string_view(field));
    } else {
      absl::StrAppend(&text, field, " ");
    }
  };
  (append(fields), ...);
  return XXH3_64bits(text.data(), text.size());
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

uint64_t StoreRow::Checksum() const {
  return Hash("store", store_id, sequence, generation_floor, tables_sum);
}

uint64_t TableRow::Checksum() const {
  return Hash("table", id, name, generation, writer_epoch, digest,
              objects_digest, first_request, next_request);
}

uint64_t RequestChecksum(int64_t table_id, uint64_t number,
                         const AnsweredRequest& request) {
  const UpdateOutcome& outcome = request.outcome;
  const ChangeCounts& counts = outcome.counts;
  return Hash("request", table_id, number, request.request_id,
              request.fingerprint, outcome.generation, counts.added,
              counts.changed, counts.removed, counts.unchanged,
              counts.next_hops_added, counts.next_hops_changed,
              counts.next_hops_removed, outcome.digest,
              absl::ToUnixNanos(outcome.accepted));
}

PackedAddress::PackedAddress(const Address& address) {
  const uint64_t words[] = {htobe64(absl::Uint128High64(address.bits())),
                            htobe64(absl::Uint128Low64(address.bits()))};
  static_assert(sizeof(words) == sizeof(bytes_));
  std::memcpy(bytes_.data(), words, sizeof(words));
  size_ = static_cast<size_t>(AddressBytes(address.family()));
  while (size_ > 0 && bytes_[size_ - 1] == 0) --size_;
}

absl::StatusOr<Prefix> UnpackPrefix(int64_t family, absl::string_view address,
                                    int64_t length) {
  if (family != 4 && family != 6) {
    return Wrong(absl::StrCat("a route has family ", family));
  }
  const auto known = static_cast<Family>(family);
  if (address.size() > static_cast<size_t>(AddressBytes(known)) ||
      (!address.empty() && address.back() == 0)) {
    return Wrong(absl::StrCat("a route has the ", FamilyName(known),
                              " address x'", absl::BytesToHexString(address),
                              "'"));
  }
  uint64_t words[2] = {};
  // Not memcpy, because the data pointer is null if there are no bytes.
  std::copy(address.begin(), address.end(), reinterpret_cast<char*>(words));
  const absl::StatusOr<Prefix> prefix = Prefix::Create(
      Address::FromBits(
          known, absl::MakeUint128(be64toh(words[0]), be64toh(words[1]))),
      length < 0 || length > 128 ? -1 : static_cast<int>(length));
  if (!prefix.ok()) return Wrong(prefix.status().message());
  return prefix;
}

absl::StatusOr<NextHopId> UnpackNextHopId(int64_t id) {
  if (id <= kNoRoute || id >= kUndecided) {
    return Wrong(absl::StrCat("there is a next hop ", id));
  }
  return static_cast<NextHopId>(id);
}

absl::StatusOr<uint32_t> UnpackWeight(int64_t weight) {
  if (weight < 0 || weight > std::numeric_limits<uint32_t>::max()) {
    return Wrong(absl::StrCat("a next hop has weight ", weight));
  }
  return static_cast<uint32_t>(weight);
}

std::optional<std::string> FormatGateway(const NextHop& next_hop) {
  if (!next_hop.gateway.has_value()) return std::nullopt;
  return next_hop.gateway->ToString();
}

absl::StatusOr<Address> ParseGateway(absl::string_view text) {
  const absl::StatusOr<Address> address = Address::Parse(text);
  if (!address.ok()) return Wrong(address.status().message());
  return address;
}

std::string FormatMembers(const NextHopGroup& group) {
  std::string text;
  for (const NextHopGroup::Member& member : group.members) {
    absl::StrAppend(&text, text.empty() ? "" : " ", member.next_hop, "*",
                    member.weight);
  }
  return text;
}

absl::StatusOr<std::vector<NextHopGroup::Member>> ParseMembers(
    absl::string_view text) {
  std::vector<NextHopGroup::Member> members;
  if (text.empty()) return members;
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(part, '*');
    NextHopGroup::Member member;
    if (fields.size() != 2 || !absl::SimpleAtoi(fields[0], &member.next_hop) ||
        !absl::SimpleAtoi(fields[1], &member.weight)) {
      return Wrong(absl::StrCat("a group has the members \"",
                                absl::CEscape(text), "\""));
    }
    members.push_back(member);
  }
  return members;
}

}  // namespace planb::server
