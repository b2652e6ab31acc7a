// SPDX-License-Identifier: Apache-2.0

// The search in portable C++: for any 64-bit machine.

#include <endian.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lpm/kernels/kernel_table.h"

namespace planb {
namespace {

#include "lpm/kernels/nodes.inc"
#include "lpm/kernels/search.inc"
#include "lpm/kernels/walk_scalar.inc"

struct Scalar : ScalarWalk<Scalar> {
  static uint64_t WideSeparators(const char* node, uint32_t key) {
    return CountBelow<kWideSeparators, uint32_t>(node, key);
  }
  static uint64_t NarrowSeparators(const char* node, uint32_t key) {
    return CountBelow<kNarrowSeparators, uint16_t>(node, key);
  }
  template <typename V>
  static uint64_t WideLeaf(const char* leaf, uint32_t key) {
    return CountBelow<Leaf<V>::kWideKeys, uint32_t>(leaf, key);
  }
  template <typename V>
  static uint64_t NarrowLeaf(const char* leaf, uint32_t key) {
    return CountBelow<Leaf<V>::kNarrowKeys, uint16_t>(leaf, key);
  }
};

bool RunsHere() { return true; }

}  // namespace

const Kernel kScalarKernel = {"scalar", RunsHere, LookupAny<Scalar>,
                              LookupWithLengthsAny<Scalar>,
                              LookupUpperAny<Scalar>};

}  // namespace planb
