// SPDX-License-Identifier: Apache-2.0

#include <endian.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib6.h>
#include <rte_lcore.h>
#include <rte_lpm6.h>
#include <rte_memory.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

constexpr size_t kTable24 = (size_t{1} << 24) * 4;
constexpr size_t kTable8 = (size_t{1} << 8) * 4;
constexpr NextHopId kMaxNextHop = (NextHopId{1} << 31) - 1;

// Sets DPDK up, once. It pins the calling thread to the core it is on; that is
// undone. Returns false if DPDK refuses.
bool SetUpDpdk() {
  static const bool done = [] {
    // A program that forwards has done it already; its flags allow vectors.
    if (rte_lcore_count() > 0) return true;
    cpu_set_t before;
    CPU_ZERO(&before);
    sched_getaffinity(0, sizeof(before), &before);
    const std::string core = std::to_string(sched_getcpu());
    std::vector<std::string> arguments = {"planb",
                                          "--no-huge",
                                          "--no-shconf",
                                          "--no-pci",
                                          "--no-telemetry",
                                          "--force-max-simd-bitwidth=512",
                                          "-l",
                                          core,
                                          "-m",
                                          "6144",
                                          "--log-level",
                                          "error"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    const int status = rte_eal_init(static_cast<int>(argv.size()), argv.data());
    sched_setaffinity(0, sizeof(before), &before);
    return status >= 0;
  }();
  return done;
}

// What a table takes: DPDK sets tables aside by its own reckoning, which counts
// some twice.
struct Needed {
  uint32_t reserved = 0;  // 8-bit tables it insists on
  uint32_t used = 0;      // and those that hold routes
};

// Length rounded up to whole bytes, at least the three of the first table.
int Bytes(int length) { return std::max(3, (length + 7) / 8); }

Needed Count(absl::Span<const Route> routes) {
  Needed needed;
  std::vector<Prefix> open;  // those the route is inside of
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    while (!open.empty() && !open.back().Covers(route.prefix)) open.pop_back();
    const int bytes = Bytes(route.prefix.length());
    const int covered = open.empty() ? 0 : open.back().length();
    needed.reserved += static_cast<uint32_t>(bytes - std::max(3, covered / 8));
    // A table for each byte past the third, unless the route before has it.
    int shared = 0;
    if (previous != nullptr) {
      const int most = Bytes(previous->prefix.length());
      while (shared < most - 1 && shared < bytes - 1 &&
             Prefix::Truncate(previous->prefix.address(), 8 * (shared + 1)) ==
                 Prefix::Truncate(route.prefix.address(), 8 * (shared + 1))) {
        ++shared;
      }
    }
    needed.used +=
        static_cast<uint32_t>(std::max(0, bytes - 1 - std::max(2, shared)));
    open.push_back(route.prefix);
    previous = &route;
  }
  return needed;
}

// Vectors where there are some: the compiler makes one clone for each.
__attribute__((target_clones("avx512f", "default"))) void Narrow(
    const uint64_t* from, size_t count, uint8_t* to) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t wire = htole32(static_cast<uint32_t>(from[i]));
    std::memcpy(to + 4 * i, &wire, sizeof(wire));
  }
}

class DpdkFib6 : public Baseline {
 public:
  DpdkFib6(rte_fib6* fib, size_t tables) : fib_(fib), tables_(tables) {}
  ~DpdkFib6() override { rte_fib6_free(fib_); }
  DpdkFib6(const DpdkFib6&) = delete;
  DpdkFib6& operator=(const DpdkFib6&) = delete;

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    using Packed = uint8_t[RTE_FIB6_IPV6_ADDR_SIZE];
    // Only read, though DPDK's interface does not say so.
    auto* in = static_cast<Packed*>(const_cast<void*>(addresses));
    auto* out = static_cast<uint8_t*>(next_hops);
    alignas(64) uint64_t wide[kChunk];
    while (count > 0) {
      const size_t n = std::min(count, kChunk);
      rte_fib6_lookup_bulk(fib_, in, wide, static_cast<int>(n));
      Narrow(wide, n, out);
      in += n;
      out += 4 * n;
      count -= n;
    }
  }

  size_t bytes() const override { return kTable24 + tables_ * kTable8; }

 private:
  static constexpr size_t kChunk = 256;

  rte_fib6* const fib_;
  const size_t tables_;
};

absl::Status AddAll(absl::Span<const Route> routes, rte_fib6* fib) {
  for (const Route& route : routes) {
    const std::string packed = route.prefix.address().ToPacked();
    const int status = rte_fib6_add(
        fib, reinterpret_cast<const uint8_t*>(packed.data()),
        static_cast<uint8_t>(route.prefix.length()), route.next_hop);
    if (status != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("DPDK: cannot add ", route.prefix.ToString(), ": ",
                       rte_strerror(-status)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildDpdkFib6(
    Family family, absl::Span<const Route> routes, RivalKernel kernel) {
  if (family != Family::kIpv6) return absl::UnimplementedError("IPv6 only");
  for (const Route& route : routes) {
    if (route.next_hop > kMaxNextHop) {
      return absl::UnimplementedError("a next hop of 2^31 or more");
    }
  }
  if (!SetUpDpdk()) {
    return absl::ResourceExhaustedError("DPDK's environment does not start");
  }
  static std::atomic<int> count = 0;  // names must differ
  const std::string name = absl::StrCat("planb", ++count);
  const Needed needed = Count(routes);
  rte_fib6_conf conf = {};
  conf.type = RTE_FIB6_TRIE;
  conf.default_nh = kNoRoute;
  conf.max_routes = static_cast<int>(routes.size() + 1);
  conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
  conf.trie.num_tbl8 = needed.reserved + 64;
  rte_fib6* const fib = rte_fib6_create(name.c_str(), SOCKET_ID_ANY, &conf);
  if (fib == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("DPDK: ", rte_strerror(rte_errno), " for ",
                     needed.reserved, " tables of 1 KB"));
  }
  auto baseline = std::make_unique<DpdkFib6>(fib, needed.used);
  if (absl::Status status = AddAll(routes, fib); !status.ok()) return status;
  const bool vectors =
      kernel == RivalKernel::kBest &&
      rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512) == 0;
  ABSL_RAW_CHECK(
      vectors || rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_SCALAR) == 0,
      "DPDK has no scalar lookup");
  return baseline;
}

namespace {

// Next hops of rte_lpm6 have 21 bits: they are indexes of ours.
constexpr size_t kMostIndexes = size_t{1} << 21;
constexpr uint32_t kMostTables = 1 << 21;

class DpdkLpm6 : public Baseline {
 public:
  DpdkLpm6(rte_lpm6* lpm, std::vector<NextHopId> next_hops, size_t tables)
      : lpm_(lpm), next_hops_(std::move(next_hops)), tables_(tables) {}
  ~DpdkLpm6() override { rte_lpm6_free(lpm_); }
  DpdkLpm6(const DpdkLpm6&) = delete;
  DpdkLpm6& operator=(const DpdkLpm6&) = delete;

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    using Packed = uint8_t[RTE_LPM6_IPV6_ADDR_SIZE];
    auto* in = static_cast<Packed*>(const_cast<void*>(addresses));
    auto* out = static_cast<uint8_t*>(next_hops);
    int32_t found[kChunk];
    while (count > 0) {
      const size_t n = std::min(count, kChunk);
      rte_lpm6_lookup_bulk_func(lpm_, in, found, static_cast<unsigned>(n));
      for (size_t i = 0; i < n; ++i) {
        // -1: no route.
        const uint32_t wire =
            htole32(found[i] < 0 ? uint32_t{kNoRoute}
                                 : next_hops_[static_cast<size_t>(found[i])]);
        std::memcpy(out + 4 * i, &wire, sizeof(wire));
      }
      in += n;
      out += 4 * n;
      count -= n;
    }
  }

  size_t bytes() const override {
    return kTable24 + tables_ * kTable8 + next_hops_.size() * sizeof(NextHopId);
  }

 private:
  static constexpr size_t kChunk = 256;

  rte_lpm6* const lpm_;
  const std::vector<NextHopId> next_hops_;
  const size_t tables_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildDpdkLpm6(
    Family family, absl::Span<const Route> routes, RivalKernel) {
  if (family != Family::kIpv6) return absl::UnimplementedError("IPv6 only");
  std::unordered_map<NextHopId, uint32_t> indexes;
  std::vector<NextHopId> next_hops;
  for (const Route& route : routes) {
    if (indexes.emplace(route.next_hop, next_hops.size()).second) {
      next_hops.push_back(route.next_hop);
    }
  }
  if (next_hops.size() >= kMostIndexes) {
    return absl::UnimplementedError("2^21 next hops or more");
  }
  if (!SetUpDpdk()) {
    return absl::ResourceExhaustedError("DPDK's environment does not start");
  }
  static std::atomic<int> count = 0;  // names must differ
  const std::string name = absl::StrCat("lpm", ++count);
  const Needed needed = Count(routes);
  rte_lpm6_config config = {};
  config.max_rules = static_cast<uint32_t>(routes.size() + 2);
  config.number_tbl8s =
      std::min(needed.used + needed.reserved / 8 + 64, kMostTables);
  rte_lpm6* const lpm = rte_lpm6_create(name.c_str(), SOCKET_ID_ANY, &config);
  if (lpm == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("DPDK: ", rte_strerror(rte_errno), " for ",
                     config.number_tbl8s, " tables of 1 KB"));
  }
  auto baseline =
      std::make_unique<DpdkLpm6>(lpm, std::move(next_hops), needed.used);
  for (const Route& route : routes) {
    // ::/0 has no length that rte_lpm6 takes; its two halves stand for it.
    const int length = std::max(1, route.prefix.length());
    for (int half = 0; half < (route.prefix.length() == 0 ? 2 : 1); ++half) {
      std::string packed = route.prefix.address().ToPacked();
      if (half == 1) packed[0] = static_cast<char>(0x80);
      const int status =
          rte_lpm6_add(lpm, reinterpret_cast<const uint8_t*>(packed.data()),
                       static_cast<uint8_t>(length), indexes[route.next_hop]);
      if (status != 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("DPDK: cannot add ", route.prefix.ToString(), ": ",
                         rte_strerror(-status)));
      }
    }
  }
  return baseline;
}

}  // namespace planb
