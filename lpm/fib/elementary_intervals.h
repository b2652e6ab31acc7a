// SPDX-License-Identifier: Apache-2.0

// From prefixes to elementary intervals (PlanB paper, section 3.1): the address
// space cut at every place where the answer may change. Longest-prefix match
// becomes a search in one dimension.

#ifndef PLANB_LPM_FIB_ELEMENTARY_INTERVALS_H_
#define PLANB_LPM_FIB_ELEMENTARY_INTERVALS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace planb {

// One pass over prefixes in ascending order, with a stack of the prefixes that
// hold the present address; O(prefixes). Calls `add(start, value)` in ascending
// order of `start`; a later call for the same start overrides the earlier.
// `Key` is the type that counts addresses. Thread-compatible.
//
// Ends come before starts at the same address, unlike in the paper's Algorithm
// 2: a prefix that ends where the next begins must not close it.
template <typename Key, typename Add>
class ElementaryIntervals {
 public:
  // Cuts [first, last], all of which has the value `cover` at first.
  ElementaryIntervals(Key first, Key last, uint32_t cover, Add add)
      : add_(add), last_(last) {
    open_[depth_++] = {last, cover};
    add_(first, cover);
  }

  // REQUIRES: within the range, first <= last; prefixes nest, come
  // ascending by first address and then from the widest to the narrowest.
  void Enter(Key first, Key last, uint32_t value) {
    CloseBefore(first);
    add_(first, value);
    open_[depth_++] = {last, value};
  }

  // The value in force at `at`, where no prefix after the last one entered
  // counts. REQUIRES: as for the next Enter(at, ...).
  uint32_t ValueAt(Key at) {
    CloseBefore(at);
    return open_[depth_ - 1].value;
  }

  // REQUIRES: nothing is called afterwards.
  void Finish() {
    while (depth_ > 1) {
      const Key last = open_[--depth_].last;
      if (last != last_) add_(last + 1, open_[depth_ - 1].value);
    }
  }

 private:
  struct Open {
    Key last;
    uint32_t value;
  };

  void CloseBefore(Key start) {
    while (depth_ > 1 && open_[depth_ - 1].last < start) {
      const Key last = open_[--depth_].last;
      add_(last + 1, open_[depth_ - 1].value);
    }
  }

  Add add_;
  const Key last_;
  // Open prefixes nest: one for each length at most, and the range itself.
  std::array<Open, 131> open_;
  size_t depth_ = 0;
};

// Elementary intervals as they are collected: the start of each and its value.
// Starts ascend strictly; neighbours have different values. `Start` is the type
// that counts addresses. Thread-compatible.
template <typename Start>
struct IntervalList {
  std::vector<Start> starts;
  std::vector<uint32_t> values;

  size_t size() const { return starts.size(); }

  void Clear() {
    starts.clear();
    values.clear();
  }

  // A later value of the same start replaces the earlier one. Drops an interval
  // that has the value of the one before. REQUIRES: no start so far is above.
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

#endif  // PLANB_LPM_FIB_ELEMENTARY_INTERVALS_H_
