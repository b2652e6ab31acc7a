// What glibc's allocator is told. It keeps what it has, which lookups profit
// from (third_party/process_setup.h), and so also what a large change of a
// table took, until it is trimmed.

#ifndef PLANB_SERVER_HEAP_H_
#define PLANB_SERVER_HEAP_H_

#include <malloc.h>

namespace planb::server {

// Gives back to the system what is free. Milliseconds; not for the lookups'
// threads.
inline void TrimHeap() { malloc_trim(0); }

}  // namespace planb::server

#endif  // PLANB_SERVER_HEAP_H_
