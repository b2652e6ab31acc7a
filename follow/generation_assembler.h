// SPDX-License-Identifier: Apache-2.0

// Following a table through WatchRoutes: joins the messages of a watch to whole
// generations, and knows where the next watch has to begin.

#ifndef PLANB_FOLLOW_GENERATION_ASSEMBLER_H_
#define PLANB_FOLLOW_GENERATION_ASSEMBLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"

namespace planb {

// How far a table is followed.
struct TablePosition {
  uint64_t generation = 0;
  std::string digest;  // Table.digest there, or as GenerationAssembler takes it
};

// The changes of one generation.
struct GenerationChanges {
  uint64_t generation = 0;
  // True: no change; everything up to `generation` was handed out.
  bool bookmark = false;
  // True: these are all routes, next hops and groups of the table, and replace
  // those that the caller has. The server no longer had the changes in between.
  bool reset = false;
  // Each prefix once. A withdrawn route has the next hop kNoRoute.
  std::vector<Route> routes;
  // Objects added or changed, and ids deleted.
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<NextHopId> deleted_next_hops;
  std::vector<NextHopId> deleted_groups;
  // Table.digest at `generation`. Empty in some bookmarks.
  std::string digest;
  // Table.complete_since_unix_nanos at `generation`. In a bookmark that does
  // not say, what the last message said; nullopt if none has.
  std::optional<uint64_t> complete_since;
  // Where the caller was before, for GenerationAssembler::GoBack().
  TablePosition previous;
};

// How much one generation may have. Changes may withdraw as much besides, so
// twice as much may come of them.
struct GenerationLimits {
  uint64_t max_routes = 16'000'000;
  uint64_t max_next_hops = 4'000'000;  // and groups
  // Of routes, as they are kept, and of the messages of next hops and groups.
  uint64_t max_bytes = uint64_t{4} << 30;
};

// Never the digest of a table: a watch from it begins with the whole table.
inline constexpr char kWholeTable[] = "whole table";

// The whole tables that may take the place of the last generation.
enum class Replacement {
  kAny,       // older ones too, as of a server that lost its table
  kNotOlder,  // also one of the same generation with other contents
  kNewer,     // any as long as the caller has nothing (kWholeTable)
};

// A message out of order is refused, because a gap could not be detected later.
// Thread-compatible.
class GenerationAssembler {
 public:
  // The caller has generation `start`. `digest` is its Table.digest; empty:
  // unknown; kWholeTable: the caller has nothing of it that changes could be
  // applied to.
  GenerationAssembler(uint64_t start, std::string digest,
                      Replacement replacement,
                      const GenerationLimits& limits = {})
      : limits_(limits),
        last_(start),
        digest_(std::move(digest)),
        replacement_(replacement) {}

  // The request that goes on after last_generation(), for the caller to
  // complete. Drops an incomplete generation: the server sends it again.
  v1::WatchRoutesRequest NextWatch();

  // The caller has dropped what came after `to`. NextWatch is the next call.
  void GoBack(TablePosition to);

  // Adds the next message of the stream. Returns a generation that this message
  // completes, or a bookmark; nothing but a whole table from kWholeTable on.
  // Errors: INTERNAL if the message breaks the contract; OUT_OF_RANGE if it
  // begins a whole table that may not take the place of the last generation;
  // RESOURCE_EXHAUSTED if the generation has more than the limits.
  // Then NextWatch is the only call.
  absl::StatusOr<std::optional<GenerationChanges>> Add(
      const v1::WatchRoutesResponse& message);

  // The last complete generation, or the start.
  uint64_t last_generation() const { return last_; }

 private:
  bool MayReplace(uint64_t generation) const;
  // What the generation has with `message`.
  absl::Status CheckLimits(const v1::WatchRoutesResponse& message);
  // Hands out `changes`, of a complete generation or a bookmark.
  std::optional<GenerationChanges> Complete(GenerationChanges changes);

  GenerationLimits limits_;
  uint64_t last_;
  std::string digest_;  // of last_, as `digest` above
  std::optional<uint64_t> complete_since_;
  Replacement replacement_;
  std::optional<GenerationChanges> partial_;
  uint64_t partial_object_bytes_ = 0;  // of next hops and groups
};

}  // namespace planb

#endif  // PLANB_FOLLOW_GENERATION_ASSEMBLER_H_
