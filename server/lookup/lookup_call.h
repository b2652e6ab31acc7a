// SPDX-License-Identifier: Apache-2.0

// Lookup's calls: a few addresses, typed, one reply.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "planb/v1/route_lookup.pb.h"
#include "server/lookup/lookup_worker.h"
#include "server/table/snapshot.h"

namespace planb::server {

// The addresses of `request`, which is otherwise sound too.
// Errors: RESOURCE_EXHAUSTED (BATCH_TOO_LARGE) for more than `limit`;
// INVALID_ARGUMENT (ADDRESS_INVALID, for each that is none;
// FLOW_HASHES_LENGTH), with the field's name.
absl::StatusOr<std::vector<Address>> DecodeAddresses(
    const v1::LookupRequest& request, size_t limit);

// Answers each of `addresses` from `snapshot`. Returns how many had no route.
// REQUIRES: DecodeAddresses(request) gave `addresses`.
size_t AnswerLookup(const Snapshot& snapshot, const Kernel& kernel,
                    const std::vector<Address>& addresses,
                    const v1::LookupRequest& request,
                    v1::LookupResponse& response);

// One call. Lives on its worker's thread and owns itself.
class LookupCall {
 public:
  // Takes in the next call that comes to `worker`, and when it has come, the
  // next. Before the worker's thread runs, or on it.
  static void Accept(LookupWorker& worker);

 private:
  explicit LookupCall(LookupWorker& worker) : worker_(worker) {}

  void OnAccepted(bool ok);
  void OnFinished(bool ok);

  void Answer(Table& table);
  void Fail(const absl::Status& status);
  absl::Duration TimeLeft() const;

  LookupWorker& worker_;
  grpc::ServerContext call_;
  grpc::ServerAsyncResponseWriter<v1::LookupResponse> io_{&call_};
  EventOf<LookupCall, &LookupCall::OnAccepted> accepted_{this};
  EventOf<LookupCall, &LookupCall::OnFinished> finished_{this};
  v1::LookupRequest request_;
  SteadyInstant received_;
  std::vector<Address> addresses_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_
