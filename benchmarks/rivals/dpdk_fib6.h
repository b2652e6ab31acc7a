// DPDK's rte_fib6 as a baseline: a trie of one 24-bit table and 8-bit ones
// below it, with 4-byte next hops, looked up by AVX-512 gathers.
//
// Optional: needs Debian's libdpdk-dev, so its targets are tagged "manual".
// DPDK is set up once in a process, with no huge pages and no devices
// (--no-huge --no-shconf --no-pci); its memory is a file in memory, which huge
// pages reach only where the administrator says so (shmem_enabled).

#ifndef PLANB_BENCHMARKS_RIVALS_DPDK_FIB6_H_
#define PLANB_BENCHMARKS_RIVALS_DPDK_FIB6_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/baseline.h"
#include "lpm/prefix.h"

namespace planb {

enum class DpdkKernel {
  kBest,    // AVX-512 if this machine has it
  kScalar,  // anywhere
};

// Adds the routes one by one. Its bulk lookup fills an array of 64-bit next
// hops, which are then narrowed to 32, 256 at a time.
// bytes() counts the tables that routes need by DPDK's layout, not the reserve
// it insists on (which no lookup reads), nor its list of routes.
// Errors: UNIMPLEMENTED for IPv4 and for next hops of 2^31 or more;
// RESOURCE_EXHAUSTED if it does not fit DPDK's memory (6 GB, touched as used).
absl::StatusOr<std::unique_ptr<const Baseline>> BuildDpdkFib6(
    Family family, absl::Span<const Route> routes,
    DpdkKernel kernel = DpdkKernel::kBest);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_DPDK_FIB6_H_
