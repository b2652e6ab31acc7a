// SPDX-License-Identifier: Apache-2.0

#include "server/table/snapshot.h"

namespace planb::server {

size_t Snapshot::intervals(Family family) const {
  std::call_once(counted_, [this] {
    intervals_ = {fib_v4_->Stats().intervals, fib_v6_->Stats().intervals};
  });
  return intervals_[family == Family::kIpv6 ? 1 : 0];
}

}  // namespace planb::server
