// SPDX-License-Identifier: Apache-2.0

// Elementary intervals while they are collected: where each begins, and its
// value.

#ifndef PLANB_LPM_FIB_INTERVAL_LIST_H_
#define PLANB_LPM_FIB_INTERVAL_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace planb {

// Starts ascend strictly, neighbours have different values. `Start` is what
// addresses are counted in. Thread-compatible.
template <typename Start>
struct IntervalList {
  std::vector<Start> starts;
  std::vector<uint32_t> values;

  size_t size() const { return starts.size(); }

  void Clear() {
    starts.clear();
    values.clear();
  }

  // A later word about the same start overrides the earlier; one that changes
  // nothing is dropped. REQUIRES: no start so far is above.
  void Add(Start start, uint32_t value) {
    if (size() > 0 && starts.back() == start) {
      values.back() = value;
      if (size() > 1 && values[size() - 2] == value) {
        starts.pop_back();
        values.pop_back();
      }
    } else if (size() == 0 || values.back() != value) {
      starts.push_back(start);
      values.push_back(value);
    }
  }
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_INTERVAL_LIST_H_
