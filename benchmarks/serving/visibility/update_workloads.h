// SPDX-License-Identifier: Apache-2.0

// Makes changes to a server's table as a controller does. The messages are made
// before anything is timed: batches of changes, whole tables, and tables that
// differ from them. A workload repeats one kind of change, and times and checks
// each.

#ifndef PLANB_BENCHMARKS_SERVING_VISIBILITY_UPDATE_WORKLOADS_H_
#define PLANB_BENCHMARKS_SERVING_VISIBILITY_UPDATE_WORKLOADS_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/table_client.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "planb/v1/route_table.pb.h"

namespace planb::visibility {

// A change is a route: an announcement, or the withdrawal of its prefix where
// the next hop is kNoRoute.
using Batch = std::vector<Route>;

// Makes `count` batches of `size` changes to the table `routes`, MakeChurn's,
// and then what undoes them, last one first: 2 * `count` batches that can be
// repeated for ever. No prefix is in a batch twice, for which the churn skips
// changes; so few of them may change nothing.
// Errors: INVALID_ARGUMENT if no such batches can be made of `routes`.
// REQUIRES: routes of one family, sorted; size > 0.
absl::StatusOr<std::vector<Batch>> MakeBatches(absl::Span<const Route> routes,
                                               size_t size, size_t count,
                                               uint64_t seed);

// Makes a table of as many routes with other prefixes (but for coincidences)
// and other next hops, sorted.
std::vector<Route> OtherTable(absl::Span<const Route> routes);

// Makes a table that differs from `routes` in one of a hundred (at least one),
// spread evenly: half of them have another next hop, the others another prefix.
// It is sorted. REQUIRES: `routes` are sorted.
std::vector<Route> NearTable(absl::Span<const Route> routes);

// Makes updates with OP_UPSERT and OP_DELETE.
void Encode(const Batch& batch,
            google::protobuf::RepeatedPtrField<v1::RouteUpdate>& to);

// Makes the messages of a ReplaceRoutes call; the last one commits.
std::vector<v1::ReplaceRoutesRequest> EncodeTable(
    absl::Span<const Route> routes);

// The times of some changes, in microseconds. Each operation (call, or batch of
// a stream) that changed something has one of each kind.
struct Seen {
  // From sent to accepted, by the server's clock, which is the client's too.
  std::vector<double> commit;
  // From accepted to visible, as the server says; of streams until the reply
  // that says so is here.
  std::vector<double> visible;
  // From sent until the reply that says "visible" is here.
  std::vector<double> call;
  uint64_t operations = 0;
  uint64_t changes = 0;  // routes sent
  double seconds = 0;    // until the last of them was visible

  void Add(const Seen& other);
};

// The server, and what its table has to hold. Not thread-safe.
struct Target {
  // The channels may be the same one.
  Target(const std::shared_ptr<grpc::Channel>& control,
         const std::shared_ptr<grpc::Channel>& lookups);

  // Gets the table's state. Errors: the server's.
  absl::StatusOr<v1::Table> State() const;
  // Lists the whole table. Errors: INTERNAL if it is not `expected`.
  absl::Status CheckTable() const;

  const std::unique_ptr<v1::RouteTable::Stub> table;
  const std::unique_ptr<v1::RouteLookup::Stub> lookup;
  const client::TableClient client;
  RouteSet expected{Family::kIpv6};
};

class UpdateWorkload {
 public:
  virtual ~UpdateWorkload() = default;
  // Changes the table for at least `time`, and at least once.
  // Errors: the server's; INTERNAL if it broke a promise.
  virtual absl::StatusOr<Seen> Run(absl::Duration time) = 0;
};

struct UpdateWorkloadOptions {
  // The changes a second of the workload "one".
  double rate = 200;
  // The number of batches made for updates; as many undo them.
  size_t batches = 20;
};

// The workloads by name: README.md has them, and batch_N for any N.
// Errors: INVALID_ARGUMENT for another name, or if `routes` are too few.
// REQUIRES: `target` outlives the workload; IPv6 routes, sorted.
absl::StatusOr<std::unique_ptr<UpdateWorkload>> MakeUpdateWorkload(
    absl::string_view name, absl::Span<const Route> routes,
    const UpdateWorkloadOptions& options, Target& target);

}  // namespace planb::visibility

#endif  // PLANB_BENCHMARKS_SERVING_VISIBILITY_UPDATE_WORKLOADS_H_
