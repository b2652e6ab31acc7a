// SPDX-License-Identifier: Apache-2.0

// Calls of Lookup: a few typed addresses, one reply.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "planb/v1/route_lookup.pb.h"
#include "server/base/weight_limit.h"
#include "server/lookup/lookup_worker.h"
#include "server/table/snapshot.h"
#include "server/table/tables.h"

namespace planb::server {

// Parses `bytes` and frees them. Errors: RESOURCE_EXHAUSTED (BATCH_TOO_LARGE)
// for more addresses than `limit`, or REQUEST_TOO_LARGE; INVALID_ARGUMENT
// (MESSAGE_MALFORMED).
absl::Status ParseLookup(grpc::ByteBuffer& bytes, size_t limit,
                         v1::LookupRequest& request);

// Checks `request` and takes its addresses out of it. Errors, which name the
// field: INVALID_ARGUMENT (ADDRESS_INVALID for each that is none;
// FLOW_HASHES_LENGTH).
absl::StatusOr<std::vector<Address>> TakeAddresses(v1::LookupRequest& request);

// Answers the next `count` of `addresses` from `snapshot`, or as many as are
// left: those before have their results in `response`. Returns how many of them
// had no route. `attributes` counts the bytes of those in `response`. Errors:
// RESOURCE_EXHAUSTED (BATCH_TOO_LARGE) if these are too many. REQUIRES:
// `addresses` are those of TakeAddresses(request).
absl::StatusOr<size_t> AnswerLookup(const Snapshot& snapshot,
                                    const Kernel& kernel,
                                    const std::vector<Address>& addresses,
                                    const v1::LookupRequest& request,
                                    v1::LookupResponse& response, size_t count,
                                    size_t& attributes);

// One call. Used on its worker's thread alone. Owns itself.
class LookupCall {
 public:
  // Accepts the next call on `worker`, and after each call one more.
  // REQUIRES: called on the worker's thread, or before it runs.
  static void Accept(LookupWorker& worker);

 private:
  explicit LookupCall(LookupWorker& worker) : worker_(worker) {}

  void OnAccepted(bool ok);
  void OnFinished(bool ok);

  // Takes memory for waiting: for what the call has, and for `more` bytes. If
  // there is none, fails the call and returns false.
  bool TakeMemory(size_t more);
  // After a wait for the generation.
  void Resume(const TableRef& table, const absl::Status& status);
  void Answer(const TableRef& table);
  void Answered(const v1::LookupResponse& response, size_t misses);
  void Fail(const absl::Status& status);
  absl::Duration TimeLeft() const;

  LookupWorker& worker_;
  grpc::ServerContext call_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> io_{&call_};
  EventOf<LookupCall, &LookupCall::OnAccepted> accepted_{this};
  EventOf<LookupCall, &LookupCall::OnFinished> finished_{this};
  grpc::ByteBuffer bytes_;
  v1::LookupRequest request_;  // without its addresses
  SteadyInstant received_;
  std::vector<Address> addresses_;
  std::optional<WeightLimit::Share> memory_;  // while it waits
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_CALL_H_
