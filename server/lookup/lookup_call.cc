// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_call.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/grpc_time.h"
#include "server/table/convert.h"

namespace planb::server {
namespace {

// Most clients have ended the call by then.
absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the deadline ended before the generation was visible");
}

}  // namespace

absl::StatusOr<std::vector<Address>> DecodeAddresses(
    const v1::LookupRequest& request, size_t limit) {
  if (static_cast<size_t>(request.addresses_size()) > limit) {
    return QuotaError("BATCH_TOO_LARGE", "addresses",
                      absl::StrCat(request.addresses_size(),
                                   " entries; the limit is ", limit));
  }
  std::vector<Address> addresses;
  Violations violations;
  for (int i = 0; i < request.addresses_size(); ++i) {
    const absl::StatusOr<Address> address = DecodeAddress(request.addresses(i));
    if (address.ok()) {
      addresses.push_back(*address);
    } else {
      violations.Add(absl::StatusCode::kInvalidArgument, "ADDRESS_INVALID",
                     absl::StrCat("addresses[", i, "]"),
                     address.status().message());
    }
  }
  if (!violations.empty()) return violations.ToStatus();
  if (request.flow_hashes_size() != 0 &&
      request.flow_hashes_size() != request.addresses_size()) {
    return FieldError(
        absl::StatusCode::kInvalidArgument, "FLOW_HASHES_LENGTH", "flow_hashes",
        absl::StrCat(request.flow_hashes_size(), " entries, not one for each ",
                     "of ", request.addresses_size(), " addresses"));
  }
  return addresses;
}

size_t AnswerLookup(const Snapshot& snapshot, const Kernel& kernel,
                    const std::vector<Address>& addresses,
                    const v1::LookupRequest& request,
                    v1::LookupResponse& response) {
  size_t misses = 0;
  response.set_generation(snapshot.generation());
  for (const Address& address : addresses) {
    const int i = response.results_size();
    v1::LookupResult& result = *response.add_results();
    const NextHopId id = snapshot.fib(address.family()).Lookup(address, kernel);
    misses += id == kNoRoute ? 1 : 0;
    result.set_next_hop_id(id);
    if (request.want_prefix() && id != kNoRoute) {
      Encode(snapshot.Match(address)->prefix, *result.mutable_prefix());
    }
    NextHopId taken = id;
    if (request.flow_hashes_size() > 0) {
      taken = snapshot.groups().Choose(id, request.flow_hashes(i));
      if (taken != id) result.set_member_id(taken);
    }
    if (request.want_next_hop()) {
      const NextHop* const next_hop = snapshot.FindNextHop(taken);
      if (next_hop != nullptr) Encode(*next_hop, *result.mutable_next_hop());
    }
  }
  return misses;
}

void LookupCall::Accept(LookupWorker& worker) {
  auto* const call = new LookupCall(worker);
  grpc::ServerCompletionQueue* const queue = worker.queue().get();
  worker.service().RequestLookup(&call->call_, &call->request_, &call->io_,
                                 queue, queue,
                                 static_cast<QueueEvent*>(&call->accepted_));
}

void LookupCall::OnAccepted(bool ok) {
  if (!ok) {
    delete this;
    return;
  }
  // A queue ends after the server has cancelled all calls.
  if (worker_.queue().ended()) return OnFinished(false);
  Accept(worker_);
  received_ = worker_.counters().Now();
  worker_.counters().Received(request_.ByteSizeLong());
  LookupContext& context = worker_.context();
  const absl::StatusOr<TableRef> table = context.tables.Find(request_.table());
  if (!table.ok()) return Fail(table.status());
  auto addresses =
      DecodeAddresses(request_, context.limits.max_lookup_addresses);
  if (!addresses.ok()) return Fail(addresses.status());
  addresses_ = *std::move(addresses);
  if (IsVisible(**table, request_.min_generation())) return Answer(**table);
  WhenVisible(context, **table, request_.min_generation(), TimeLeft(),
              [this, table = *table](const absl::Status& status) {
                worker_.queue().Post([this, table, status] {
                  if (worker_.queue().ended()) {
                    OnFinished(false);
                  } else if (status.ok()) {
                    Answer(*table);
                  } else if (absl::IsFailedPrecondition(status) &&
                             TimeLeft() <= absl::ZeroDuration()) {
                    Fail(TooLate());
                  } else {
                    Fail(status);
                  }
                });
              });
}

void LookupCall::OnFinished(bool) { delete this; }

void LookupCall::Answer(Table& table) {
  LookupContext& context = worker_.context();
  v1::LookupResponse response;
  const size_t misses = AnswerLookup(*table.Read(), context.kernel, addresses_,
                                     request_, response);
  worker_.Answered(call_, request_.table(), /*request_id=*/0, received_,
                   addresses_.size(), misses);
  worker_.counters().Sent(response.ByteSizeLong());
  io_.Finish(response, grpc::Status::OK, static_cast<QueueEvent*>(&finished_));
}

void LookupCall::Fail(const absl::Status& status) {
  worker_.Refused(status);
  io_.FinishWithError(ToGrpc(status), static_cast<QueueEvent*>(&finished_));
}

absl::Duration LookupCall::TimeLeft() const {
  // Not call_.deadline(): that is by the wall clock, which may be set back.
  return TimeUntil(call_.raw_deadline());
}

}  // namespace planb::server
