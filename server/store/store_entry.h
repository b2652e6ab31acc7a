// SPDX-License-Identifier: Apache-2.0

// Accepted batches as bytes: what an entry of the log, or a part of a snapshot,
// consists of. STORE.md describes the format.

#ifndef PLANB_SERVER_STORE_STORE_ENTRY_H_
#define PLANB_SERVER_STORE_STORE_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/table/table.h"
#include "server/table/store.h"
#include "server/table/update.h"

namespace planb::server {

// Batches that are stored together.
struct Entry {
  std::string bytes;  // about 10 for each route
  // The generation of the table before and after, and its digest after; 0 and
  // empty if no batch changes it. `previous` is no generation if one of the
  // batches does not follow the one before.
  uint64_t previous = 0;
  uint64_t generation = 0;
  std::string digest;
};

// Entries of these batches in their order; one ends once it has so many bytes.
// REQUIRES: the digests of deltas have 16 bytes.
std::vector<Entry> MakeEntries(absl::Span<const AcceptedBatch> batches,
                               size_t max_bytes);

// The batches of an entry. Errors: INVALID_ARGUMENT, naming the defect.
absl::StatusOr<std::vector<AcceptedBatch>> ReadEntry(absl::string_view bytes);

// A table as a whole, for a snapshot.
struct TableContents {
  uint64_t generation = 0;
  std::string digest;
  const TableRoutes& routes;
  const NextHopSet& next_hops;
  uint64_t writer_epoch = 0;
  uint64_t complete_since = 0;
  absl::Span<const AnsweredRequest> requests;
};
inline TableContents ContentsOf(const TableVersion& version) {
  return {.generation = version.generation,
          .digest = version.rib.digest(),
          .routes = version.rib.routes(),
          .next_hops = version.rib.next_hops(),
          .writer_epoch = version.writer_epoch,
          .complete_since = version.rib.complete_since(),
          .requests = version.requests};
}

// Calls `write` with the parts of a snapshot, which have about so many bytes:
// entries with all requests and with deltas from nothing to the contents, each
// of the generation and the digest of the whole. Stops at an error of `write`.
absl::Status ForEachPart(
    const TableContents& contents, size_t part_bytes,
    absl::FunctionRef<absl::Status(absl::string_view)> write);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_ENTRY_H_
