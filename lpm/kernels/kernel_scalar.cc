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
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t WideBelow(const char* node, uint32_t key) {
    return kEach * CountBelow<kKeys, uint32_t>(node, key);
  }
  template <uint32_t kKeys, uint64_t kEach>
  static uint64_t NarrowBelow(const char* node, uint32_t key) {
    return kEach * CountBelow<kKeys, uint16_t>(node, key);
  }
};

bool RunsHere() { return true; }

}  // namespace

const Kernel kScalarKernel = {"scalar", RunsHere, LookupAny<Scalar>,
                              LookupWithLengthsAny<Scalar>,
                              LookupUpperAny<Scalar>};

}  // namespace planb
