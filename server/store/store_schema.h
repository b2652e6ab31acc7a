// SPDX-License-Identifier: Apache-2.0

// The schema of the store's database and its upgrade, the format of values in
// columns, and the checksums of rows. STORE.md documents the columns.

#ifndef PLANB_SERVER_STORE_STORE_SCHEMA_H_
#define PLANB_SERVER_STORE_STORE_SCHEMA_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "server/store/store_sql.h"
#include "server/table/update.h"

namespace planb::server {

// PRAGMA application_id of our databases: "PlnB".
inline constexpr int kStoreApplicationId = 0x506c6e42;

// Step i is SQL that upgrades a database from version i to i + 1. PRAGMA
// user_version has the version. A released step is never edited: a change of
// the schema is a new step at the end.
absl::Span<const std::string> StoreSchemaSteps();

// Upgrades the database of `sql` to the newest version, each step in its own
// transaction. Creates the schema of an empty database and runs `first_rows`,
// also SQL, in one transaction. True if it was empty. Errors:
// FAILED_PRECONDITION (STORE_TOO_NEW) if a newer server wrote it; DATA_LOSS
// (STORE_CORRUPT) if it is not a store or its schema differs from that of the
// steps; those of Sql.
absl::StatusOr<bool> PrepareStoreSchema(
    Sql& sql, const std::string& first_rows,
    absl::Span<const std::string> steps = StoreSchemaSteps());

// The only row of `store`. Covers the rows of `tables` by a sum of checksums.
struct StoreRow {
  uint64_t store_id = 0;  // random, the same for the life of the store
  uint64_t sequence = 0;  // number of the last transaction
  uint64_t generation_floor = 0;
  // The sum, modulo 2^64, of TableRow::Checksum() of all tables.
  uint64_t tables_sum = 0;

  uint64_t Checksum() const;
};

// A row of `tables`. Covers all rows with its id: routes and next hops by
// digests, requests by their numbers and checksums.
struct TableRow {
  int64_t id = 0;
  std::string name;
  uint64_t generation = 0;
  uint64_t writer_epoch = 0;
  std::string digest;          // TableDigest of the routes
  std::string objects_digest;  // TableDigest of next hops and groups
  // The numbers of the requests kept are [first_request, next_request).
  uint64_t first_request = 0;
  uint64_t next_request = 0;

  uint64_t Checksum() const;
};

// The checksum of a row of `requests`.
uint64_t RequestChecksum(int64_t table_id, uint64_t number,
                         const AnsweredRequest& request);

// The bytes of an address without trailing zeros. Packed addresses of one
// family are ordered like the addresses. A plain value.
class PackedAddress {
 public:
  explicit PackedAddress(const Address& address);

  absl::string_view bytes() const {
    return absl::string_view(bytes_.data(), size_);
  }

 private:
  std::array<char, 16> bytes_;
  size_t size_;
};

// Errors: DATA_LOSS with the invalid value, if the store cannot have written
// it.
absl::StatusOr<Prefix> UnpackPrefix(int64_t family, absl::string_view address,
                                    int64_t length);
absl::StatusOr<NextHopId> UnpackNextHopId(int64_t id);
absl::StatusOr<uint32_t> UnpackWeight(int64_t weight);

// Such as "192.0.2.1"; nullopt, for NULL, if there is no gateway.
std::optional<std::string> FormatGateway(const NextHop& next_hop);
absl::StatusOr<Address> ParseGateway(absl::string_view text);

// Such as "7*1 8*3": next hop 7 with weight 1, next hop 8 with weight 3.
std::string FormatMembers(const NextHopGroup& group);
absl::StatusOr<std::vector<NextHopGroup::Member>> ParseMembers(
    absl::string_view text);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_SCHEMA_H_
