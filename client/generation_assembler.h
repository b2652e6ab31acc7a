// Puts the messages of a watch together to whole generations, so that nobody
// sees a part of one.

#ifndef PLANB_CLIENT_GENERATION_ASSEMBLER_H_
#define PLANB_CLIENT_GENERATION_ASSEMBLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client {

// What one generation changed.
struct GenerationChanges {
  uint64_t generation = 0;
  // Nothing changed: all up to `generation` has been handed out.
  bool bookmark = false;
  // Each prefix once; a route that was withdrawn has the next hop kNoRoute.
  std::vector<Route> routes;
  // Objects added or changed, and ids deleted.
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<NextHopId> deleted_next_hops;
  std::vector<NextHopId> deleted_groups;
  // The digest of the table's routes at `generation`: Table.digest. A bookmark
  // may have none.
  std::string digest;
};

// Thread-compatible.
class GenerationAssembler {
 public:
  // Generations have to be above `start`.
  explicit GenerationAssembler(uint64_t start) : last_(start) {}

  // Takes the next message of the stream. Returns a generation if it is
  // complete with it, or a bookmark.
  // Errors: INTERNAL if the message breaks the contract; then stop.
  absl::StatusOr<std::optional<GenerationChanges>> Add(
      const v1::WatchRoutesResponse& message);

  // Forgets the generation that is incomplete: it will be sent again.
  void DropPartial() { partial_.reset(); }

  // The last one complete, or the start.
  uint64_t last_generation() const { return last_; }

 private:
  absl::StatusOr<std::optional<GenerationChanges>> Bookmark(
      const v1::WatchRoutesResponse& message);

  uint64_t last_;
  std::optional<GenerationChanges> partial_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_GENERATION_ASSEMBLER_H_
