// SPDX-License-Identifier: Apache-2.0

// A digest of a table's contents in 16 bytes. It does not depend on the order
// of the changes that made them, so two replicas, or a store and its RIB, can
// be compared without a dump.

#ifndef PLANB_LPM_ROUTES_TABLE_DIGEST_H_
#define PLANB_LPM_ROUTES_TABLE_DIGEST_H_

#include <string>

#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"
#include "lpm/prefix.h"

namespace planb {

// The sum, modulo 2^128, of the XXH3 hashes of all entries (routes, next hops
// and groups); zero for an empty table. The same on any machine. An adversary
// that chooses the routes can make two tables collide. A plain value.
class TableDigest {
 public:
  void Add(const Route& route) { sum_ += Hash(route); }
  void Remove(const Route& route) { sum_ -= Hash(route); }
  void Add(const NextHop& next_hop) { sum_ += Hash(next_hop); }
  void Remove(const NextHop& next_hop) { sum_ -= Hash(next_hop); }
  void Add(const NextHopGroup& group) { sum_ += Hash(group); }
  void Remove(const NextHopGroup& group) { sum_ -= Hash(group); }
  // Adds all entries of `other`.
  void Add(const TableDigest& other) { sum_ += other.sum_; }

  // 16 bytes, as in Table.digest.
  std::string ToString() const;

  friend bool operator==(const TableDigest&, const TableDigest&) = default;

 private:
  static absl::uint128 Hash(const Route& route);
  static absl::uint128 Hash(const NextHop& next_hop);
  static absl::uint128 Hash(const NextHopGroup& group);

  absl::uint128 sum_ = 0;
};

// True if `stored`, the digest in a store or a table file, is that of a table
// of these routes and these objects: next hops and groups. Servers before 0.9.0
// stored the digest of the routes alone.
bool IsStoredDigest(absl::string_view stored, const TableDigest& routes,
                    const TableDigest& objects);

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_TABLE_DIGEST_H_
