// SPDX-License-Identifier: Apache-2.0

// The read path as a gRPC service: how many threads there are, where they run,
// and how they wait is decided here and nowhere else.
//
// One completion queue and one thread a core. Measured against gRPC's callback
// and synchronous interfaces on this very path, it wins
// (benchmarks/serving/rpc); a second thread on a core takes from the first.

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
  // Threads, each with a completion queue; 0: as many as this process may use
  // cores.
  size_t count = 0;
  // The cores to run on, taken in turn; empty: the scheduler decides.
  std::vector<int> cpus = {};
  // As in QueueOptions.
  absl::Duration spin = absl::ZeroDuration();
};

// Outlived by `context`. Outlives the gRPC server.
class LookupService {
 public:
  explicit LookupService(LookupContext& context) : context_(context) {}

  // Adds the service and its queues to a server that is about to be built.
  void Register(const LookupThreads& threads, grpc::ServerBuilder& builder);

  // Begins to serve. REQUIRES: the server has started.
  // Errors: INVALID_ARGUMENT if there is no such core.
  absl::Status Start();

  // BatchLookup streams open.
  size_t streams() { return in_flight_.count(); }

  // Lets every stream answer what it has received, then ends it; waits for
  // the last one until the deadline.
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
