#include "server/batch.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/error.h"

namespace planb::server {
namespace {

// prefix_lengths' word for "no route".
constexpr char kNoPrefix = '\xff';

absl::Status CheckLength(absl::string_view field, Family family, size_t size) {
  const auto width = static_cast<size_t>(AddressBytes(family));
  if (size % width == 0) return absl::OkStatus();
  return FieldError(absl::StatusCode::kInvalidArgument, "ADDRESSES_LENGTH",
                    field,
                    absl::StrCat("has ", size,
                                 " octets, which is no multiple "
                                 "of ",
                                 width));
}

size_t CountMisses(const std::string& next_hops) {
  size_t misses = 0;
  for (size_t i = 0; i < next_hops.size(); i += sizeof(NextHopId)) {
    NextHopId next_hop;
    std::memcpy(&next_hop, next_hops.data() + i, sizeof(next_hop));
    misses += next_hop == kNoRoute ? 1 : 0;
  }
  return misses;
}

void AppendLengths(const Snapshot& snapshot, Family family,
                   const std::string& addresses, std::string& lengths) {
  const auto width = static_cast<size_t>(AddressBytes(family));
  for (size_t i = 0; i < addresses.size(); i += width) {
    const auto route = snapshot.Match(
        *Address::FromPacked(absl::string_view(addresses).substr(i, width)));
    lengths += route.has_value() ? static_cast<char>(route->prefix.length())
                                 : kNoPrefix;
  }
}

}  // namespace

size_t BatchSize(const v1::BatchLookupRequest& request) {
  return request.addresses_v6().size() / 16 + request.addresses_v4().size() / 4;
}

absl::Status CheckBatch(const v1::BatchLookupRequest& request,
                        const LookupLimits& limits) {
  absl::Status status =
      CheckLength("addresses_v6", Family::kIpv6, request.addresses_v6().size());
  if (status.ok()) {
    status = CheckLength("addresses_v4", Family::kIpv4,
                         request.addresses_v4().size());
  }
  if (status.ok() && BatchSize(request) > limits.max_batch_addresses) {
    return QuotaError(
        "BATCH_TOO_LARGE", "addresses",
        absl::StrCat("the batch has ", BatchSize(request), "; the limit is ",
                     limits.max_batch_addresses));
  }
  if (status.ok() && request.want_prefix_lengths() &&
      BatchSize(request) > limits.max_lookup_addresses) {
    return QuotaError(
        "BATCH_TOO_LARGE", "addresses",
        absl::StrCat("the batch has ", BatchSize(request), "; with ",
                     "want_prefix_lengths the limit is ",
                     limits.max_lookup_addresses));
  }
  return status;
}

size_t AnswerBatch(const Snapshot& snapshot, const Kernel& kernel,
                   const v1::BatchLookupRequest& request,
                   v1::BatchLookupResponse& response) {
  response.set_request_id(request.request_id());
  response.set_generation(snapshot.generation());
  std::string& next_hops = *response.mutable_next_hops();
  next_hops.resize(BatchSize(request) * sizeof(NextHopId));
  const size_t v6 = request.addresses_v6().size() / 16;
  snapshot.fib(Family::kIpv6)
      .Lookup(request.addresses_v6().data(), v6, next_hops.data(), kernel);
  snapshot.fib(Family::kIpv4)
      .Lookup(request.addresses_v4().data(), request.addresses_v4().size() / 4,
              next_hops.data() + v6 * sizeof(NextHopId), kernel);
  if (request.want_prefix_lengths()) {
    std::string& lengths = *response.mutable_prefix_lengths();
    AppendLengths(snapshot, Family::kIpv6, request.addresses_v6(), lengths);
    AppendLengths(snapshot, Family::kIpv4, request.addresses_v4(), lengths);
  }
  return CountMisses(next_hops);
}

void FailBatch(const absl::Status& error, uint64_t request_id,
               uint64_t generation, v1::BatchLookupResponse& response) {
  response.set_request_id(request_id);
  response.set_generation(generation);
  v1::BatchError& in_band = *response.mutable_error();
  in_band.set_code(static_cast<int>(error.code()));
  in_band.set_reason(ErrorReason(error));
  in_band.set_field(ErrorField(error));
  in_band.set_message(std::string(error.message()));
}

}  // namespace planb::server
