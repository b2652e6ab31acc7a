// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/testing/readings.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>

#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/batch_messages.h"

namespace planb::wire {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::ConcatenatingInputStream;
using google::protobuf::io::ZeroCopyInputStream;

// A bytes field with its size, so that its end is unambiguous.
std::string Field(absl::string_view bytes) {
  return absl::StrCat(bytes.size(), ":", bytes, " ");
}
std::string Field(const std::string& bytes) {
  return Field(absl::string_view(bytes));
}
std::string Field(const Bytes& bytes) {
  std::string copy(bytes.size(), '\0');
  bytes.CopyTo(copy.data());
  return Field(copy);
}

// The generated parser logs each string that is not UTF-8.
void Silence() {
  static google::protobuf::LogHandler* const former =
      google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(former);
}

template <typename Message>
bool Parse(absl::string_view message, Message& parsed) {
  Silence();
  return parsed.ParseFromArray(message.data(),
                               static_cast<int>(message.size()));
}

template <typename Message>
bool Parse(Pieces message, Message& parsed) {
  Silence();
  std::deque<ArrayInputStream> streams;
  std::vector<ZeroCopyInputStream*> pointers;
  for (const absl::string_view piece : message) {
    streams.emplace_back(piece.data(), static_cast<int>(piece.size()));
    pointers.push_back(&streams.back());
  }
  ConcatenatingInputStream all(pointers.data(),
                               static_cast<int>(pointers.size()));
  return parsed.ParseFromZeroCopyStream(&all);
}

template <typename Source>
std::string Request(Source message) {
  v1::BatchLookupRequest request;
  if (!Parse(message, request)) return kRefused;
  return absl::StrCat(
      "id ", request.request_id(), " v6 ", Field(request.addresses_v6()), "v4 ",
      Field(request.addresses_v4()), "upper ", Field(request.upper_halves_v6()),
      "hashes ", Field(request.flow_hashes()), "table ", Field(request.table()),
      "min ", request.min_generation(), " wait ", request.max_wait_ms(),
      " lengths ", request.want_prefix_lengths(), " complete ",
      request.require_complete());
}

template <typename Source>
std::string Response(Source message) {
  v1::BatchLookupResponse response;
  if (!Parse(message, response)) return kRefused;
  return absl::StrCat(
      "id ", response.request_id(), " generation ", response.generation(),
      " next hops ", Field(response.next_hops()), "lengths ",
      Field(response.prefix_lengths()), "error ", response.has_error());
}

std::string RequestByHand(Pieces message) {
  BatchRequest request;
  if (!ParseBatchRequest(message, request)) return kRefused;
  return absl::StrCat(
      "id ", request.request_id, " v6 ", Field(request.addresses_v6), "v4 ",
      Field(request.addresses_v4), "upper ", Field(request.upper_halves_v6),
      "hashes ", Field(request.flow_hashes), "table ", Field(request.table),
      "min ", request.min_generation, " wait ", request.max_wait_ms,
      " lengths ", request.want_prefix_lengths, " complete ",
      request.require_complete);
}

std::string ResponseByHand(Pieces message) {
  BatchResponse response;
  if (!ParseBatchResponse(message, response)) return kRefused;
  return absl::StrCat(
      "id ", response.request_id, " generation ", response.generation,
      " next hops ", Field(response.next_hops), "lengths ",
      Field(response.prefix_lengths), "error ", response.has_error);
}

}  // namespace

const Kind kKinds[2] = {
    {"request", RequestByHand, Request<absl::string_view>, Request<Pieces>},
    {"response", ResponseByHand, Response<absl::string_view>,
     Response<Pieces>}};

}  // namespace planb::wire
