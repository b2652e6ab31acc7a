// SPDX-License-Identifier: Apache-2.0

// Replaces the operators new and delete of a program by two functions, which
// the only file that includes this defines.

#ifndef PLANB_LPM_TESTING_OPERATOR_NEW_H_
#define PLANB_LPM_TESTING_OPERATOR_NEW_H_

#include <cstddef>
#include <new>

namespace planb {
void* Allocate(size_t size, size_t alignment);
void Free(void* block);
}  // namespace planb

// The other forms (arrays, nothrow) call these.
void* operator new(size_t size) {
  return planb::Allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return planb::Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { planb::Free(block); }
void operator delete(void* block, size_t) noexcept { planb::Free(block); }
void operator delete(void* block, std::align_val_t) noexcept {
  planb::Free(block);
}
void operator delete(void* block, size_t, std::align_val_t) noexcept {
  planb::Free(block);
}

#endif  // PLANB_LPM_TESTING_OPERATOR_NEW_H_
