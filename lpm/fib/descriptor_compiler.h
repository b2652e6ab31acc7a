// SPDX-License-Identifier: Apache-2.0

// What lies in one /48 that prefixes longer than /48 divide.

#ifndef PLANB_LPM_FIB_DESCRIPTOR_COMPILER_H_
#define PLANB_LPM_FIB_DESCRIPTOR_COMPILER_H_

#include <cstddef>
#include <cstdint>

#include "absl/numeric/int128.h"
#include "lpm/fib/block_pool.h"
#include "lpm/fib/interval_list.h"
#include "lpm/fib/partition.h"
#include "lpm/fib/slot_compiler.h"
#include "lpm/kernels/layout.h"

namespace planb {

// Thread-compatible.
class DescriptorCompiler {
 public:
  DescriptorCompiler(const LeafShape& shape, LinePool& lines,
                     DescriptorPool& descriptors)
      : shape_(shape),
        descriptors_(descriptors),
        slots_(shape, lines, &entry_) {}

  // Compiles the slot of `length` bits at the first interval's start and
  // returns the value that stands for it: a flagged one that no other slot has,
  // or 0 on overflow(). O(intervals).
  // REQUIRES: at least two intervals, all in the slot; 48 <= length < 128.
  uint32_t Compile(const IntervalList<absl::uint128>& intervals, int length);

  // True if there were more descriptors than flagged values can name, or than
  // the pool may have; what was compiled is then of no use.
  bool overflow() const { return overflow_; }

 private:
  // What `upper_entry` is beside `entry_`, in a descriptor of `length` bits
  // that holds so many intervals.
  uint32_t UpperEntry(int length, size_t intervals) const;

  const LeafShape& shape_;
  DescriptorPool& descriptors_;
  uint32_t entry_ = 0;  // stands in for the root: one slot
  SlotCompiler slots_;
  bool overflow_ = false;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_DESCRIPTOR_COMPILER_H_
