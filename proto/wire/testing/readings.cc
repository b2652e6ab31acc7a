// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/testing/readings.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>

#include <deque>
#include <type_traits>
#include <vector>

#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/batch_messages.h"

namespace planb::wire {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::ConcatenatingInputStream;
using google::protobuf::io::ZeroCopyInputStream;

std::string Copy(const Bytes& bytes) {
  std::string copy(bytes.size(), '\0');
  bytes.CopyTo(copy.data());
  return copy;
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
  request.DiscardUnknownFields();
  return request.ShortDebugString();
}

template <typename Source>
std::string Response(Source message) {
  v1::BatchLookupResponse response;
  if (!Parse(message, response)) return kRefused;
  response.DiscardUnknownFields();
  if (response.has_error()) response.mutable_error()->Clear();
  return response.ShortDebugString();
}

std::string RequestByHand(Pieces message) {
  BatchRequest read;
  if (!ParseBatchRequest(message, read)) return kRefused;
  v1::BatchLookupRequest request;
  RequestNumbers::ForEach(read, [&](int number, auto value) {
    const auto* const field =
        request.GetDescriptor()->FindFieldByNumber(number);
    const auto* const set = request.GetReflection();
    if constexpr (std::is_same_v<decltype(value), bool>) {
      set->SetBool(&request, field, value);
    } else if constexpr (std::is_same_v<decltype(value), uint32_t>) {
      set->SetUInt32(&request, field, value);
    } else {
      set->SetUInt64(&request, field, value);
    }
  });
  request.set_addresses_v6(Copy(read.addresses_v6));
  request.set_addresses_v4(Copy(read.addresses_v4));
  request.set_upper_halves_v6(Copy(read.upper_halves_v6));
  request.set_flow_hashes(Copy(read.flow_hashes));
  request.set_table(read.table);
  return request.ShortDebugString();
}

std::string ResponseByHand(Pieces message) {
  BatchResponse read;
  if (!ParseBatchResponse(message, read)) return kRefused;
  v1::BatchLookupResponse response;
  response.set_request_id(read.request_id);
  response.set_generation(read.generation);
  response.set_next_hops(Copy(read.next_hops));
  response.set_prefix_lengths(Copy(read.prefix_lengths));
  if (read.has_error) response.mutable_error();
  return response.ShortDebugString();
}

}  // namespace

const Kind kKinds[2] = {
    {"request", RequestByHand, Request<absl::string_view>, Request<Pieces>},
    {"response", ResponseByHand, Response<absl::string_view>,
     Response<Pieces>}};

}  // namespace planb::wire
