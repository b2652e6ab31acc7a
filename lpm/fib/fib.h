// SPDX-License-Identifier: Apache-2.0

// The FIB: an immutable search structure that answers longest-prefix-match
// lookups, many at a time, exactly, to the last bit of an address.
//
// This is PlanB (NSDI '26), partitioned: prefixes become elementary intervals
// (section 3.1 of the paper), and these the keys of many small linearized
// B+-trees (3.3) under a direct-indexed root; layout.h has the picture.
//
//   std::vector<Route> routes = ...;               // sorted, one family
//   std::unique_ptr<const Fib> fib = *Fib::Build(Family::kIpv6, routes);
//   fib->Lookup(packet_addresses, n, next_hops, *AvailableKernels().front());
//
// A table that changes is compiled by FibCompiler (fib_compiler.h).

#ifndef PLANB_LPM_FIB_FIB_H_
#define PLANB_LPM_FIB_FIB_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/kernels/kernel.h"
#include "lpm/prefix.h"

namespace planb {

class FibArena;
struct FibLimits;
struct FibRoot;
struct FibView;

// What a FIB is compiled for. A plain value.
struct FibOptions {
  // Keeps the length of the prefix behind each answer, for LookupWithLengths.
  // Costs memory and some speed, in all lookups: neighbours of one next hop
  // merge only where their prefixes are equally long, and a value takes 5 bytes
  // where it may have taken none.
  bool prefix_lengths = false;
};

// As a prefix length: there is no route.
inline constexpr uint8_t kNoPrefixLength = 255;

// What a FIB consists of.
struct FibStats {
  // Neighbours of one next hop (and length, if these are kept) merged.
  size_t intervals = 0;
  size_t root_bytes = 0;   // of each generation its own
  size_t table_bytes = 0;  // index tables
  size_t tables = 0;
  size_t partition_bytes = 0;
  size_t wide_partitions = 0, narrow_partitions = 0;
  size_t descriptor_bytes = 0;
  size_t descriptors = 0;
  size_t next_hop_bytes = 0;
  size_t prefix_length_bytes = 0;
  int value_bytes = 0;       // of a value in a leaf: 1, 2 or 4
  int table_steps = 0;       // tables a lookup goes through, at most
  int descriptor_steps = 0;  // descriptors a lookup goes through, at most

  size_t bytes() const {
    return root_bytes + table_bytes + partition_bytes + descriptor_bytes +
           next_hop_bytes + prefix_length_bytes;
  }
};

// Thread-safe: const. Shares memory with the FIBs that the same FibCompiler
// made before and after it; nothing that this one reads is ever written.
class Fib {
 public:
  // Compiles `routes`. O(routes). Errors: RESOURCE_EXHAUSTED if a FIB cannot
  // hold them; fib_bound.h tells that in advance.
  // REQUIRES: all of `family`, strictly ascending by prefix, IsNextHop of
  // each next hop.
  static absl::StatusOr<std::unique_ptr<const Fib>> Build(
      Family family, absl::Span<const Route> routes,
      const FibOptions& options = {});
  ~Fib();
  Fib(const Fib&) = delete;
  Fib& operator=(const Fib&) = delete;

  // Looks up `count` packed addresses in network byte order (16 bytes each
  // for IPv6, 4 for IPv4) and writes as many next-hop ids, each a little-endian
  // uint32; 0 is no route. Neither array need be aligned; they must not
  // overlap. No allocation, no lock, any `count`. Each address takes a number
  // of steps that is bounded for all tables.
  void Lookup(const void* addresses, size_t count, void* next_hops,
              const Kernel& kernel) const;

  // The same, and writes the length of the prefix that each next hop is of to
  // `lengths`, a byte an address: 0..128, or kNoPrefixLength.
  // REQUIRES: keeps_prefix_lengths(). The three arrays must not overlap.
  void LookupWithLengths(const void* addresses, size_t count, void* next_hops,
                         void* lengths, const Kernel& kernel) const;

  // Looks up the upper halves of `count` IPv6 addresses: 8 bytes each, in
  // network byte order. For each one, writes the next hop of all addresses that
  // begin with it (0: they have no route). Writes kUndecided if and only if
  // they do not all have the same next hop, as where a prefix longer than /64
  // makes a difference. Only next hops count, also where prefix lengths are
  // kept. In all else like Lookup. REQUIRES: family() is IPv6.
  void LookupUpper(const void* upper_halves, size_t count, void* next_hops,
                   const Kernel& kernel) const;

  // One address; 0 is no route. REQUIRES: address.family() == family().
  NextHopId Lookup(const Address& address, const Kernel& kernel) const;
  // The same, by the best kernel.
  NextHopId Lookup(const Address& address) const {
    return Lookup(address, *AvailableKernels().front());
  }

  Family family() const { return family_; }
  bool keeps_prefix_lengths() const { return prefix_lengths_ != nullptr; }

  // Walks the whole structure: O(intervals).
  FibStats Stats() const;

  // Bytes that hold this FIB and the generations that share memory with it,
  // room for changes included. O(1).
  size_t bytes() const;

  // Names that memory: FIBs with equal memory() share it. Each has own_bytes()
  // of its own beside it.
  const void* memory() const { return arena_.get(); }
  static size_t own_bytes();

 private:
  friend class FibBuilder;
  friend class FibPeer;        // of tests
  friend class FibLimitsPeer;  // of tests
  Fib() = default;

  static absl::StatusOr<std::unique_ptr<const Fib>> Build(
      Family family, absl::Span<const Route> routes, const FibOptions& options,
      const FibLimits& limits);

  FibView View() const;

  Family family_ = Family::kIpv6;
  int value_bytes_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<FibRoot> root_;  // written before it is published
  std::shared_ptr<FibArena> arena_;
  std::shared_ptr<const NextHopId[]> next_hops_;     // or nullptr
  std::shared_ptr<const uint8_t[]> prefix_lengths_;  // of these, or nullptr
  size_t next_hop_count_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_H_
