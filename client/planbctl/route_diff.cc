// SPDX-License-Identifier: Apache-2.0

// A merge of two sorted sequences.

#include "client/planbctl/route_diff.h"

namespace planb::client {

void RouteDiff::Add(const Route& route) {
  while (next_ < wanted_.size() && wanted_[next_].prefix < route.prefix) {
    const Route& added = wanted_[next_++];
    on_difference_({added.prefix, kNoRoute, added.next_hop});
  }
  if (next_ == wanted_.size() || wanted_[next_].prefix != route.prefix) {
    on_difference_({route.prefix, route.next_hop, kNoRoute});
    return;
  }
  const NextHopId wanted = wanted_[next_++].next_hop;
  if (wanted != route.next_hop) {
    on_difference_({route.prefix, route.next_hop, wanted});
  }
}

void RouteDiff::Finish() {
  for (; next_ < wanted_.size(); ++next_) {
    on_difference_({wanted_[next_].prefix, kNoRoute, wanted_[next_].next_hop});
  }
}

}  // namespace planb::client
