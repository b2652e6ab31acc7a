#include "server/lookup_call.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/convert.h"
#include "server/error.h"

namespace planb::server {
namespace {

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
  return addresses;
}

// Returns how many addresses had no route.
size_t AnswerAll(const Snapshot& snapshot, const Kernel& kernel,
                 const std::vector<Address>& addresses,
                 const v1::LookupRequest& request,
                 v1::LookupResponse& response) {
  size_t misses = 0;
  response.set_generation(snapshot.generation());
  for (const Address& address : addresses) {
    v1::LookupResult& result = *response.add_results();
    const NextHopId id = snapshot.fib(address.family()).Lookup(address, kernel);
    misses += id == kNoRoute ? 1 : 0;
    result.set_next_hop_id(id);
    if (request.want_prefix() && id != kNoRoute) {
      Encode(snapshot.Match(address)->prefix, *result.mutable_prefix());
    }
    if (request.want_next_hop()) {
      const NextHop* const next_hop = snapshot.FindNextHop(id);
      if (next_hop != nullptr) Encode(*next_hop, *result.mutable_next_hop());
    }
  }
  return misses;
}

// Most callers have given up by themselves by then.
absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the deadline ended before the generation was visible");
}

}  // namespace

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
  Accept(worker_);
  received_ = absl::Now();
  LookupContext& context = worker_.context();
  const absl::StatusOr<Table*> table = context.tables.Find(request_.table());
  if (!table.ok()) return Fail(table.status());
  auto addresses =
      DecodeAddresses(request_, context.limits.max_lookup_addresses);
  if (!addresses.ok()) return Fail(addresses.status());
  addresses_ = *std::move(addresses);
  if (IsVisible(**table, request_.min_generation())) return Answer(**table);
  WhenVisible(context, **table, request_.min_generation(), TimeLeft(),
              [this, table = *table](const absl::Status& status) {
                worker_.queue().Post([this, table, status] {
                  if (status.ok()) {
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
  const size_t misses =
      AnswerAll(*table.Read(), context.kernel, addresses_, request_, response);
  context.metrics.Answered(addresses_.size(), misses, absl::Now() - received_);
  io_.Finish(response, grpc::Status::OK, static_cast<QueueEvent*>(&finished_));
}

void LookupCall::Fail(const absl::Status& status) {
  worker_.context().metrics.Failed(ErrorReason(status));
  io_.FinishWithError(ToGrpc(status), static_cast<QueueEvent*>(&finished_));
}

absl::Duration LookupCall::TimeLeft() const {
  return absl::FromChrono(call_.deadline()) - absl::Now();
}

}  // namespace planb::server
