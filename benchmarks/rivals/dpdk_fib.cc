// SPDX-License-Identifier: Apache-2.0

#include <endian.h>
#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
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
#include <type_traits>
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

// Entries of the first table and of each other one.
constexpr size_t kTable24 = size_t{1} << 24;
constexpr size_t kTable8 = size_t{1} << 8;
// Of an entry of 4 bytes: one bit tells whether it is one.
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

// Addresses of one call.
constexpr size_t kChunk = 256;

std::atomic<int> tables_made = 0;  // names must differ

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

// The calls of rte_fib6, and of rte_fib below, by the same names.
struct Ipv6 {
  using Table = rte_fib6;

  static Table* Create(const char* name, size_t routes, uint32_t tables,
                       bool wide) {
    rte_fib6_conf conf = {};
    conf.type = RTE_FIB6_TRIE;
    conf.default_nh = kNoRoute;
    conf.max_routes = static_cast<int>(routes);
    conf.trie.nh_sz = wide ? RTE_FIB6_TRIE_8B : RTE_FIB6_TRIE_4B;
    conf.trie.num_tbl8 = tables;
    return rte_fib6_create(name, SOCKET_ID_ANY, &conf);
  }
  static void Free(Table* fib) { rte_fib6_free(fib); }
  static bool Select(Table* fib, bool vectors) {
    return rte_fib6_select_lookup(fib, vectors
                                           ? RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512
                                           : RTE_FIB6_LOOKUP_TRIE_SCALAR) == 0;
  }
  static int Change(Table* fib, const Route& route) {
    const std::string packed = route.prefix.address().ToPacked();
    const auto* const address = reinterpret_cast<const uint8_t*>(packed.data());
    const auto length = static_cast<uint8_t>(route.prefix.length());
    return route.next_hop == kNoRoute
               ? rte_fib6_delete(fib, address, length)
               : rte_fib6_add(fib, address, length, route.next_hop);
  }
  static void Lookup(Table* fib, const uint8_t* addresses, size_t count,
                     uint64_t* next_hops) {
    using Packed = uint8_t[RTE_FIB6_IPV6_ADDR_SIZE];
    // Only read, though DPDK's interface does not say so.
    auto* const in = reinterpret_cast<Packed*>(const_cast<uint8_t*>(addresses));
    rte_fib6_lookup_bulk(fib, in, next_hops, static_cast<int>(count));
  }
};

struct Ipv4 {
  using Table = rte_fib;

  static Table* Create(const char* name, size_t routes, uint32_t tables,
                       bool wide) {
    rte_fib_conf conf = {};
    conf.type = RTE_FIB_DIR24_8;
    conf.default_nh = kNoRoute;
    conf.max_routes = static_cast<int>(routes);
    conf.dir24_8.nh_sz = wide ? RTE_FIB_DIR24_8_8B : RTE_FIB_DIR24_8_4B;
    conf.dir24_8.num_tbl8 = tables;
    return rte_fib_create(name, SOCKET_ID_ANY, &conf);
  }
  static void Free(Table* fib) { rte_fib_free(fib); }
  static bool Select(Table* fib, bool vectors) {
    return rte_fib_select_lookup(
               fib, vectors ? RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512
                            : RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO) == 0;
  }
  static int Change(Table* fib, const Route& route) {
    const std::string packed = route.prefix.address().ToPacked();
    const auto length = static_cast<uint8_t>(route.prefix.length());
    const uint32_t address = HostOrder(packed.data());
    return route.next_hop == kNoRoute
               ? rte_fib_delete(fib, address, length)
               : rte_fib_add(fib, address, length, route.next_hop);
  }
  static void Lookup(Table* fib, const uint8_t* addresses, size_t count,
                     uint64_t* next_hops) {
    uint32_t in[kChunk];
    for (size_t i = 0; i < count; ++i) in[i] = HostOrder(addresses + 4 * i);
    rte_fib_lookup_bulk(fib, in, next_hops, static_cast<int>(count));
  }

 private:
  static uint32_t HostOrder(const void* address) {
    uint32_t packed;
    std::memcpy(&packed, address, sizeof(packed));
    return be32toh(packed);
  }
};

template <typename Of>
class DpdkFib final : public UpdatableBaseline {
 public:
  static absl::StatusOr<std::unique_ptr<UpdatableBaseline>> Build(
      absl::Span<const Route> routes, RivalKernel kernel) {
    const std::string name = absl::StrCat("planb", ++tables_made);
    const Needed needed = Count(routes);
    const bool wide = std::any_of(
        routes.begin(), routes.end(),
        [](const Route& route) { return route.next_hop > kMaxNextHop; });
    // Room for changes; without them, memory that is not touched.
    const uint32_t tables = needed.reserved + needed.reserved / 4 + 4096;
    auto* const fib = Of::Create(
        name.c_str(), routes.size() + routes.size() / 4 + 4096, tables, wide);
    if (fib == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("DPDK: ", rte_strerror(rte_errno), " for ", tables,
                       " tables of ", wide ? 2 : 1, " KB"));
    }
    auto baseline = std::make_unique<DpdkFib>(fib, wide, needed.used);
    if (absl::Status status = baseline->Update(routes); !status.ok()) {
      return status;
    }
    const bool vectors = kernel == RivalKernel::kBest && Of::Select(fib, true);
    ABSL_RAW_CHECK(vectors || Of::Select(fib, false),
                   "DPDK has no scalar lookup");
    return baseline;
  }

  DpdkFib(typename Of::Table* fib, bool wide, size_t tables)
      : fib_(fib), wide_(wide), tables_(tables) {}
  ~DpdkFib() override { Of::Free(fib_); }
  DpdkFib(const DpdkFib&) = delete;
  DpdkFib& operator=(const DpdkFib&) = delete;

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    constexpr size_t kBytes = std::is_same_v<Of, Ipv6> ? 16 : 4;
    const auto* in = static_cast<const uint8_t*>(addresses);
    auto* out = static_cast<uint8_t*>(next_hops);
    alignas(64) uint64_t wide[kChunk];
    while (count > 0) {
      const size_t n = std::min(count, kChunk);
      Of::Lookup(fib_, in, n, wide);
      Narrow(wide, n, out);
      in += kBytes * n;
      out += 4 * n;
      count -= n;
    }
  }

  absl::Status Update(absl::Span<const Route> changes) override {
    for (const Route& route : changes) {
      if (!wide_ && route.next_hop > kMaxNextHop) {
        return absl::UnimplementedError("a next hop of 2^31 or more");
      }
      const int status = Of::Change(fib_, route);
      // What is not there need not be withdrawn.
      if (status == 0 || (status == -ENOENT && route.next_hop == kNoRoute)) {
        continue;
      }
      return absl::ResourceExhaustedError(
          absl::StrCat("DPDK: cannot change ", route.prefix.ToString(), ": ",
                       rte_strerror(-status)));
    }
    return absl::OkStatus();
  }

  size_t bytes() const override {
    return (kTable24 + tables_ * kTable8) * (wide_ ? 8 : 4);
  }

 private:
  typename Of::Table* const fib_;
  const bool wide_;
  const size_t tables_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdatableBaseline>> BuildDpdkFib(
    Family family, absl::Span<const Route> routes, RivalKernel kernel) {
  if (!SetUpDpdk()) {
    return absl::ResourceExhaustedError("DPDK's environment does not start");
  }
  return family == Family::kIpv6 ? DpdkFib<Ipv6>::Build(routes, kernel)
                                 : DpdkFib<Ipv4>::Build(routes, kernel);
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
    return (kTable24 + tables_ * kTable8) * 4 +
           next_hops_.size() * sizeof(NextHopId);
  }

 private:
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
  const std::string name = absl::StrCat("lpm", ++tables_made);
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
