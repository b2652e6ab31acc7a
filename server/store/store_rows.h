// SPDX-License-Identifier: Apache-2.0

// How values are written into the columns of the store's tables and read back,
// and the checksums over rows that nothing else vouches for. STORE.md says what
// the columns are.

#ifndef PLANB_SERVER_STORE_STORE_ROWS_H_
#define PLANB_SERVER_STORE_STORE_ROWS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

// The one row of `store`. Vouches for the rows of `tables`.
struct StoreRow {
  uint64_t store_id = 0;  // random, the same for the life of the store
  uint64_t sequence = 0;  // number of the last transaction
  uint64_t generation_floor = 0;
  // The sum, modulo 2^64, of TableRow::Checksum() of all tables.
  uint64_t tables_sum = 0;

  uint64_t Checksum() const;
};

// A row of `tables`. Vouches for all rows that carry its id: for routes and
// next hops by digests, for requests by their numbers and checksums.
struct TableRow {
  int64_t id = 0;
  std::string name;
  uint64_t generation = 0;
  uint64_t writer_epoch = 0;
  std::string digest;          // TableDigest of the routes
  std::string objects_digest;  // TableDigest of next hops and groups
  // The requests kept are those of these numbers: [first, next).
  uint64_t first_request = 0;
  uint64_t next_request = 0;

  uint64_t Checksum() const;
};

// The checksum of a row of `requests`.
uint64_t RequestChecksum(int64_t table_id, uint64_t number,
                         const AnsweredRequest& request);

// The bytes of an address without the zeros at its end. Ordered like the
// addresses of a family. A plain value.
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

// Errors: DATA_LOSS, saying what is wrong with the value, for all that could
// not have been written by PackedAddress and its kin.
absl::StatusOr<Prefix> UnpackPrefix(int64_t family, absl::string_view address,
                                    int64_t length);
absl::StatusOr<NextHopId> UnpackNextHopId(int64_t id);
absl::StatusOr<uint32_t> UnpackWeight(int64_t weight);

// "192.0.2.1" or nullopt, as the column is NULL.
std::optional<std::string> FormatGateway(const NextHop& next_hop);
absl::StatusOr<Address> ParseGateway(absl::string_view text);

// "7*1 8*3": next hop 7 with weight 1, next hop 8 with weight 3.
std::string FormatMembers(const NextHopGroup& group);
absl::StatusOr<std::vector<NextHopGroup::Member>> ParseMembers(
    absl::string_view text);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_ROWS_H_
