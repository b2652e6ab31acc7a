// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_answer.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/table/convert.h"

namespace planb::server {

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

}  // namespace planb::server
