// SPDX-License-Identifier: Apache-2.0

// Looks up a few addresses, one call each time. For many, use BatchLookup.

#ifndef PLANB_CLIENT_LOOKUP_CLIENT_H_
#define PLANB_CLIENT_LOOKUP_CLIENT_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::client {

// The fields are those of planb.v1.LookupRequest, which documents them.
struct LookupOptions {
  // Empty means "default".
  std::string table = {};
  // Answer from this generation or a later one; 0 means the visible one.
  uint64_t min_generation = 0;
  // Also return the matched prefixes and the next-hop objects.
  bool want_prefix = false;
  bool want_next_hop = false;
  // One hash of the flow for each address, or none.
  std::vector<uint32_t> flow_hashes = {};
  // UNAVAILABLE (IsRetryable) while the table is not complete.
  bool require_complete = false;
  Deadline deadline;
};

// The answer to one address.
struct LookupAnswer {
  // kNoRoute if there is no route.
  NextHopId next_hop = kNoRoute;
  // The member of the group that the flow takes, if `next_hop` is a group and
  // a flow hash was given; else kNoRoute.
  NextHopId member = kNoRoute;
  // Set if want_prefix and there is a route.
  std::optional<Prefix> prefix;
  // Set if want_next_hop and the table has an object for the next hop (or the
  // member).
  std::optional<NextHop> next_hop_object;
};

struct LookupAnswers {
  // The generation of all answers.
  uint64_t generation = 0;
  // In the order of the addresses, one each.
  std::vector<LookupAnswer> answers;
};

// Thread-safe.
class LookupClient {
 public:
  explicit LookupClient(const std::shared_ptr<grpc::Channel>& channel);

  // Errors: the server's, by FromGrpc; INTERNAL if its reply breaks the
  // contract.
  absl::StatusOr<LookupAnswers> Lookup(absl::Span<const Address> addresses,
                                       const LookupOptions& options = {}) const;

 private:
  const std::unique_ptr<v1::RouteLookup::Stub> stub_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOOKUP_CLIENT_H_
