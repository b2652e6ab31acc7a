// SPDX-License-Identifier: Apache-2.0

// What a table may come to, known before it is compiled: so that nothing is
// accepted that cannot be.

#ifndef PLANB_SERVER_TABLE_MEMORY_BOUND_H_
#define PLANB_SERVER_TABLE_MEMORY_BOUND_H_

#include <cstddef>

#include "absl/status/status.h"
#include "server/table/rib.h"

namespace planb::server {

// An upper bound of the bytes of the RIB and of two search structures for it:
// the one that serves and the one that is being compiled. O(1).
size_t MemoryBound(const Rib& rib);

// RESOURCE_EXHAUSTED (TABLE_FULL) if the search structure's format might not
// hold so many routes of such lengths.
absl::Status CheckCompilable(const Rib& rib);

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_MEMORY_BOUND_H_
