// SPDX-License-Identifier: Apache-2.0

// An operator new whose memory ends at a forbidden page. It catches what the
// sanitizers do not see: gathers and other vector loads of the kernels.
//
// Programs that link this library have their operators new and delete replaced.
// Under AddressSanitizer, which brings its own, nothing is replaced.

#ifndef PLANB_LPM_TESTING_FENCED_NEW_H_
#define PLANB_LPM_TESTING_FENCED_NEW_H_

#include <cstddef>

namespace planb {

// While one lives, each block that its thread allocates by `new` ends right
// before a forbidden page (its size rounded up to its alignment). Once a block
// is deleted, at any time and by any thread, its pages are forbidden for good.
// Slow, and limited to some ten thousand blocks at a time. Do not nest.
class FencedNew {
 public:
  FencedNew();
  ~FencedNew();
  FencedNew(const FencedNew&) = delete;
  FencedNew& operator=(const FencedNew&) = delete;

  // False where AddressSanitizer does the work.
  static bool Available();
  // Bytes allocated so and not yet deleted. Thread-safe.
  static size_t Bytes();
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_FENCED_NEW_H_
