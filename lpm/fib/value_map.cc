// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/value_map.h"

#include <algorithm>

namespace planb {
namespace {

// Values must be below. One byte has no descriptors to tell from.
constexpr uint32_t kLimit1 = 1u << 8;
constexpr uint32_t kLimit2 = kDescriptorFlag<uint16_t>;
constexpr uint32_t kLimit4 = kDescriptorFlag<uint32_t>;

uint32_t LimitOf(int bytes, uint32_t most) {
  const uint32_t limit = bytes == 1 ? kLimit1 : bytes == 2 ? kLimit2 : kLimit4;
  return std::min(limit, most + 1);  // kNoRoute
}

// The narrowest width whose limit is above `largest`, or 0.
int WidthFor(uint64_t largest, int min_bytes, uint32_t most) {
  for (int bytes : {1, 2, 4}) {
    if (bytes >= min_bytes && largest < LimitOf(bytes, most)) return bytes;
  }
  return 0;
}

}  // namespace

bool ValueMap::NeedsCount(const RouteSummary& summary) {
  return summary.largest_id >= kLimit2;
}

ValueMap::ValueMap(const RouteSummary& summary, int min_bytes, uint32_t most) {
  if (summary.long_routes > 0) min_bytes = std::max(min_bytes, 2);
  const int as_ids = WidthFor(summary.largest_id, min_bytes, most);
  const int counted = WidthFor(summary.next_hops, min_bytes, most);
  identity_ = as_ids != 0 && (!NeedsCount(summary) || as_ids <= counted);
  value_bytes_ = identity_ ? as_ids : counted != 0 ? counted : 4;
  limit_ = LimitOf(value_bytes_, most);
  if (!identity_) Map(kNoRoute);
}

uint32_t ValueMap::Map(NextHopId id) {
  const auto [it, fresh] =
      values_.try_emplace(id, static_cast<uint32_t>(size_));
  if (fresh) {
    if (size_ == limit_) {
      overflow_ = true;
      values_.erase(it);
      return 0;
    }
    if (size_ == capacity_) {
      const size_t capacity = std::max<size_t>(64, 2 * capacity_);
      std::shared_ptr<NextHopId[]> grown(new NextHopId[capacity]);
      std::copy_n(next_hops_.get(), size_, grown.get());
      next_hops_ = std::move(grown);
      capacity_ = capacity;
    }
    next_hops_[static_cast<std::ptrdiff_t>(size_++)] = id;
  }
  last_id_ = id;
  return last_value_ = it->second;
}

}  // namespace planb
