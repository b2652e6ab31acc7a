// SPDX-License-Identifier: Apache-2.0

// Lookup's calls: a few addresses, typed, one reply.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_

#include <grpcpp/grpcpp.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/address.h"
#include "server/lookup/lookup_worker.h"

namespace planb::server {

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
