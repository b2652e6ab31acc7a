// SPDX-License-Identifier: Apache-2.0

// Packing and huge pages only: the addresses are those of MakeTraffic.

#include "benchmarks/engine/traces.h"

#include <cstring>
#include <string>

namespace planb {

Trace::Trace(Family family, size_t count)
    : family_(family),
      size_(count),
      width_(static_cast<size_t>(AddressBytes(family))),
      bytes_(count * width_) {}

Address Trace::address(size_t i) const {
  return *Address::FromPacked(absl::string_view(at(i), width_));
}

void Trace::Set(size_t i, const Address& address) {
  const std::string packed = address.ToPacked();
  std::memcpy(bytes_.data() + i * width_, packed.data(), width_);
}

absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed) {
  Trace trace(family, count);
  size_t i = 0;
  const absl::Status status =
      MakeTraffic(kind, family, routes, count, seed,
                  [&](const Address& address) { trace.Set(i++, address); });
  if (!status.ok()) return status;
  return trace;
}

}  // namespace planb
