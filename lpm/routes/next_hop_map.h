// SPDX-License-Identifier: Apache-2.0

// Next hops and groups by their id, in versions that share what they have in
// common.

#ifndef PLANB_LPM_ROUTES_NEXT_HOP_MAP_H_
#define PLANB_LPM_ROUTES_NEXT_HOP_MAP_H_

#include "lpm/prefix.h"
#include "lpm/routes/persistent_map.h"

namespace planb {

// The order of next hops, and of groups, in a map.
template <typename Object>
struct ById {
  using Entry = Object;
  using Key = NextHopId;
  static Key KeyOf(const Object& object) { return object.id; }
  static bool Less(Key a, Key b) { return a < b; }
};

// Small chunks, because a change copies one, and the entries have strings.
using NextHopMap = PersistentMap<ById<NextHop>, 16, 64>;
using NextHopGroupMap = PersistentMap<ById<NextHopGroup>, 16, 64>;

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_NEXT_HOP_MAP_H_
