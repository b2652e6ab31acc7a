// SPDX-License-Identifier: Apache-2.0

// How next-hop ids become the small values that leaves hold.

#ifndef PLANB_LPM_FIB_VALUE_MAP_H_
#define PLANB_LPM_FIB_VALUE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"

namespace planb {

// What must be known of a list of routes to choose the width of its values.
struct RouteSummary {
  size_t routes = 0;
  NextHopId largest_id = 0;
  // Prefixes longer than /48.
  size_t long_routes = 0;
  // Distinct next hops; counted only where largest_id calls for it.
  size_t next_hops = 0;
};

// Where all ids are small, values are ids. Otherwise values count the distinct
// ids as they come, and next_hops() leads back. Value 0 is kNoRoute.
// Thread-compatible.
class ValueMap {
 public:
  // The narrowest map that does for such routes, of `min_bytes` at least; for
  // no more than `most` next hops.
  ValueMap(const RouteSummary& summary, int min_bytes, uint32_t most);

  // True if the ids decide nothing, without counting the distinct ones.
  static bool NeedsCount(const RouteSummary& summary);

  // 0, and overflow() from then on, if there is no value left for `id`.
  uint32_t ToValue(NextHopId id) {
    if (identity_) {
      if (id < limit_) return id;
      overflow_ = true;
      return 0;
    }
    if (id == last_id_) return last_value_;
    return Map(id);
  }

  // Bytes of a value: 1, 2 or 4.
  int value_bytes() const { return value_bytes_; }
  bool overflow() const { return overflow_; }
  // Distinct next hops that there are values for.
  uint32_t most() const { return limit_ - 1; }

  // Ids by value, or nullptr if values are ids. Entries that exist do not
  // change; when the array is full, a larger one takes its place.
  const std::shared_ptr<NextHopId[]>& next_hops() const { return next_hops_; }
  size_t next_hop_count() const { return size_; }

 private:
  uint32_t Map(NextHopId id);

  int value_bytes_;
  bool identity_;
  uint32_t limit_;  // values are below
  bool overflow_ = false;
  NextHopId last_id_ = kNoRoute;
  uint32_t last_value_ = 0;
  absl::flat_hash_map<NextHopId, uint32_t> values_;
  std::shared_ptr<NextHopId[]> next_hops_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_VALUE_MAP_H_
