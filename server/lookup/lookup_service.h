// SPDX-License-Identifier: Apache-2.0

// The read path as a gRPC service. It decides how many threads there are, on
// which cores they run, and how they wait.
//
// There is one completion queue and one thread for each core. This is faster
// than gRPC's callback and synchronous interfaces, and faster than two threads
// for each core.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_SERVICE_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "server/base/in_flight.h"
#include "server/lookup/lookup_context.h"
#include "server/lookup/lookup_worker.h"

namespace planb::server {

struct LookupThreads {
  // Threads, each with a completion queue. 0: one for each core that the
  // process may use.
  size_t count = 0;
  // The cores to run on, taken in turn. Empty: any.
  std::vector<int> cpus = {};
  // As in QueueOptions.
  absl::Duration spin = absl::ZeroDuration();
};

// Owns the workers. Outlives the gRPC server. Thread-compatible.
class LookupService {
 public:
  // `context` outlives this.
  explicit LookupService(LookupContext& context) : context_(context) {}

  // Adds the service and its queues to `builder`.
  void Register(const LookupThreads& threads, grpc::ServerBuilder& builder);

  // Starts to serve. REQUIRES: the gRPC server has started.
  // Errors: INVALID_ARGUMENT if there is no such core.
  absl::Status Start();

  // BatchLookup streams open.
  size_t streams() { return in_flight_.count(); }

  // Lets every stream answer the requests it has received, then ends it.
  // Returns after the last one, or at the deadline.
  void Drain(SteadyInstant deadline);

  // Ends the threads. REQUIRES: the gRPC server is shut down.
  void Shutdown();

 private:
  LookupContext& context_;
  RawRouteLookup service_;
  InFlight in_flight_;
  std::vector<std::unique_ptr<LookupWorker>> workers_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_SERVICE_H_
