// SPDX-License-Identifier: Apache-2.0

// What glibc's allocator is told. It keeps what it has, which lookups profit
// from (base/process_setup.h), and so also what a large change of a
// table, or a flood of calls, took, until it is trimmed.

#ifndef PLANB_SERVER_BASE_MALLOC_TRIM_H_
#define PLANB_SERVER_BASE_MALLOC_TRIM_H_

#include <malloc.h>

#include <cstddef>

namespace planb::server {

// Gives back to the system what is free. Milliseconds; not for the lookups'
// threads.
inline void TrimHeap() { malloc_trim(0); }

// Bytes that are free, and yet not the system's. Microseconds to milliseconds.
inline size_t FreeHeap() { return mallinfo2().fordblks; }

// Gives them back if they are many. To be called every few seconds: a flood
// leaves them scattered, and the next one takes others.
inline void TidyHeap() {
  constexpr size_t kMany = 64 << 20;
  if (FreeHeap() > kMany) TrimHeap();
}

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_MALLOC_TRIM_H_
