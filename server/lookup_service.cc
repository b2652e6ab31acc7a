#include "server/lookup_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
size_t Answer(const Snapshot& snapshot, const Kernel& kernel,
              const std::vector<Address>& addresses,
              const v1::LookupRequest& request, v1::LookupResponse& response) {
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

absl::Duration TimeLeft(const grpc::CallbackServerContext& call) {
  return absl::FromChrono(call.deadline()) - absl::Now();
}

// Most callers have given up by themselves by then.
absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the deadline ended before the generation was visible");
}

}  // namespace

grpc::ServerUnaryReactor* LookupService::Lookup(
    grpc::CallbackServerContext* call, const v1::LookupRequest* request,
    v1::LookupResponse* response) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  const absl::Time received = absl::Now();
  const auto fail = [this, reactor](const absl::Status& status) {
    context_.metrics.Failed(ErrorReason(status));
    reactor->Finish(ToGrpc(status));
  };
  const absl::StatusOr<Table*> table = context_.tables.Find(request->table());
  if (!table.ok()) {
    fail(table.status());
    return reactor;
  }
  absl::StatusOr<std::vector<Address>> addresses =
      DecodeAddresses(*request, context_.limits.max_lookup_addresses);
  if (!addresses.ok()) {
    fail(addresses.status());
    return reactor;
  }
  WhenVisible(context_, **table, request->min_generation(), TimeLeft(*call),
              [=, this, table = *table,
               addresses = *std::move(addresses)](const absl::Status& status) {
                if (absl::IsFailedPrecondition(status) &&
                    TimeLeft(*call) <= absl::ZeroDuration()) {
                  return fail(TooLate());
                }
                if (!status.ok()) return fail(status);
                const size_t misses = Answer(*table->Read(), context_.kernel,
                                             addresses, *request, *response);
                context_.metrics.Answered(addresses.size(), misses,
                                          absl::Now() - received);
                reactor->Finish(grpc::Status::OK);
              });
  return reactor;
}

grpc::ServerBidiReactor<v1::BatchLookupRequest, v1::BatchLookupResponse>*
LookupService::BatchLookup(grpc::CallbackServerContext*) {
  return streams_.Open();
}

}  // namespace planb::server
