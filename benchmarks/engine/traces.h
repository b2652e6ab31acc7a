// SPDX-License-Identifier: Apache-2.0

// The addresses that measurements ask for: packed as packets carry them, the
// same on every machine, in huge pages, so that what is measured is not the
// trace's own TLB misses.

#ifndef PLANB_BENCHMARKS_ENGINE_TRACES_H_
#define PLANB_BENCHMARKS_ENGINE_TRACES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/traffic.h"

namespace planb {

// A sequence of addresses of one family. Thread-safe: const after MakeTrace.
class Trace {
 public:
  Trace(Family family, size_t count);

  Family family() const { return family_; }
  size_t size() const { return size_; }
  // Bytes of one address.
  size_t width() const { return width_; }

  // The packed addresses from the i-th on. REQUIRES: i <= size().
  const char* at(size_t i) const { return bytes_.data() + i * width_; }
  Address address(size_t i) const;
  void Set(size_t i, const Address& address);

 private:
  Family family_;
  size_t size_;
  size_t width_;
  HugeArray<char> bytes_;
};

// `count` addresses. The same arguments give the same trace everywhere.
// O(count log routes).
// Errors: FAILED_PRECONDITION if there is no route to draw from.
absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed = 1);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_TRACES_H_
