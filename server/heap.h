// What glibc's allocator is told. By default it maps and unmaps every large
// message, which costs lookups a third of their throughput; told to keep what
// it has, it also keeps what a large change of a table took, until it is
// trimmed.

#ifndef PLANB_SERVER_HEAP_H_
#define PLANB_SERVER_HEAP_H_

#include <malloc.h>

namespace planb::server {

// Once, first of all.
inline void TuneHeap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// Gives back to the system what is free. Milliseconds; not for the lookups'
// threads.
inline void TrimHeap() { malloc_trim(0); }

}  // namespace planb::server

#endif  // PLANB_SERVER_HEAP_H_
