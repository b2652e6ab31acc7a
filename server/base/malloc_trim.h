// SPDX-License-Identifier: Apache-2.0

// Returns free memory of glibc's allocator to the system. The allocator is set
// to keep free memory, which makes lookups faster (base/process_setup.h). After
// a large change of a table, or a flood of calls, much of it must be returned.

#ifndef PLANB_SERVER_BASE_MALLOC_TRIM_H_
#define PLANB_SERVER_BASE_MALLOC_TRIM_H_

#include <malloc.h>

#include <cstddef>

namespace planb::server {

// Returns free memory to the system. Takes milliseconds: not for lookup
// threads.
inline void TrimHeap() { malloc_trim(0); }

// Bytes that are free and not returned. Takes microseconds to milliseconds.
inline size_t FreeHeap() { return mallinfo2().fordblks; }

// Returns free memory if there is much. To be called every few seconds: free
// blocks that a flood leaves scattered are not reused by the next one.
inline void TidyHeap() {
  constexpr size_t kMany = 64 << 20;
  if (FreeHeap() > kMany) TrimHeap();
}

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_MALLOC_TRIM_H_
