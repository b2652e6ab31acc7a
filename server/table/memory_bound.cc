// SPDX-License-Identifier: Apache-2.0

#include "server/table/memory_bound.h"

#include "absl/strings/str_cat.h"
#include "lpm/fib/fib_bound.h"
#include "server/base/error.h"
#include "server/table/group_table.h"

namespace planb::server {

size_t MemoryBound(const Rib& rib) {
  size_t bytes =
      rib.bytes() + rib.next_hops().groups()->size() * GroupTable::kGroupBytes;
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    // The one that serves, and the one that is made beside it.
    bytes += FibBytesBound(family, rib.lengths(family)) +
             CompilePeakBound(family, rib.lengths(family));
  }
  return bytes;
}

absl::Status CheckCompilable(const Rib& rib) {
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    const absl::Status status =
        planb::CheckCompilable(family, rib.lengths(family));
    if (!status.ok()) {
      return QuotaError("TABLE_FULL", "routes", status.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace planb::server
