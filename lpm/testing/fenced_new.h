// An operator new whose memory ends at a forbidden page, for what the
// sanitizers do not see: gathers and other vector loads of the kernels.
//
// Programs that link this library have their operators new and delete replaced.
// Under AddressSanitizer, which brings its own, nothing is replaced.

#ifndef PLANB_LPM_TESTING_FENCED_NEW_H_
#define PLANB_LPM_TESTING_FENCED_NEW_H_

#include <cstddef>

namespace planb {

// While one lives, what its thread allocates by `new` ends (its size rounded up
// to its alignment) right before a forbidden page, and the memory is forbidden
// for good once it is deleted, whenever and by whichever thread that is. Slow,
// and good for some ten thousand blocks at a time. Do not nest.
class FencedNew {
 public:
  FencedNew();
  ~FencedNew();
  FencedNew(const FencedNew&) = delete;
  FencedNew& operator=(const FencedNew&) = delete;

  // False where AddressSanitizer does the work.
  static bool Available();
  // Octets allocated so and not yet deleted. Thread-safe.
  static size_t Octets();
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_FENCED_NEW_H_
