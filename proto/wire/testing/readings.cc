#include "proto/wire/testing/readings.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/batch_request.h"
#include "proto/wire/batch_response.h"

namespace planb::wire {
namespace {

// A field of octets, its end unmistakable.
std::string Field(absl::string_view octets) {
  return absl::StrCat(octets.size(), ":", octets, " ");
}
std::string Field(const std::string& octets) {
  return Field(absl::string_view(octets));
}
std::string Field(const Octets& octets) {
  std::string copy(octets.size(), '\0');
  octets.CopyTo(copy.data());
  return Field(copy);
}

// False if the generated parser refuses `octets`. Silent about why: it would
// log each string that is no UTF-8.
template <typename Message>
bool Parse(absl::string_view octets, Message& message) {
  static google::protobuf::LogHandler* const former =
      google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(former);
  return message.ParseFromArray(octets.data(), static_cast<int>(octets.size()));
}

}  // namespace

std::string RequestByHand(Pieces message) {
  BatchRequest request;
  if (!ParseBatchRequest(message, request)) return kRefused;
  return absl::StrCat(
      "id ", request.request_id, " v6 ", Field(request.addresses_v6), "v4 ",
      Field(request.addresses_v4), "upper ", Field(request.upper_halves_v6),
      "table ", Field(request.table), "min ", request.min_generation, " wait ",
      request.max_wait_ms, " lengths ", request.want_prefix_lengths);
}

std::string RequestGenerated(absl::string_view message) {
  v1::BatchLookupRequest request;
  if (!Parse(message, request)) return kRefused;
  return absl::StrCat(
      "id ", request.request_id(), " v6 ", Field(request.addresses_v6()), "v4 ",
      Field(request.addresses_v4()), "upper ", Field(request.upper_halves_v6()),
      "table ", Field(request.table()), "min ", request.min_generation(),
      " wait ", request.max_wait_ms(), " lengths ",
      request.want_prefix_lengths());
}

std::string ResponseByHand(Pieces message) {
  BatchResponse response;
  if (!ParseBatchResponse(message, response)) return kRefused;
  return absl::StrCat(
      "id ", response.request_id, " generation ", response.generation,
      " next hops ", Field(response.next_hops), "lengths ",
      Field(response.prefix_lengths), "error ", response.has_error);
}

std::string ResponseGenerated(absl::string_view message) {
  v1::BatchLookupResponse response;
  if (!Parse(message, response)) return kRefused;
  return absl::StrCat(
      "id ", response.request_id(), " generation ", response.generation(),
      " next hops ", Field(response.next_hops()), "lengths ",
      Field(response.prefix_lengths()), "error ", response.has_error());
}

}  // namespace planb::wire
