// SPDX-License-Identifier: Apache-2.0

#include "server/table/update.h"

namespace planb::server {

size_t Delta::bytes() const {
  size_t bytes = sizeof(Delta) + digest.size() +
                 routes.capacity() * sizeof(Route) +
                 next_hops.capacity() * sizeof(NextHop) +
                 groups.capacity() * sizeof(NextHopGroup) +
                 (deleted_next_hops.capacity() + deleted_groups.capacity()) *
                     sizeof(NextHopId);
  for (const NextHop& next_hop : next_hops) {
    bytes += next_hop.interface.size() + next_hop.label.size();
  }
  for (const NextHopGroup& group : groups) {
    bytes += group.label.size() +
             group.members.capacity() * sizeof(NextHopGroup::Member);
  }
  return bytes;
}

}  // namespace planb::server
