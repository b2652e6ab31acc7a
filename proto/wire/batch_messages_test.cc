// SPDX-License-Identifier: Apache-2.0

// Requests and responses, read and written in place, against the generated
// code.

#include "proto/wire/batch_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/testing/readings.h"

namespace planb::wire {
namespace {

const std::string kFull(320, 'a');
const std::string kShort(12, 'b');
const std::string kUpper(200, 'c');
const std::string kHashes(192, 'd');

std::vector<OutgoingRequest> Requests() {
  std::vector<OutgoingRequest> requests(1);
  for (const uint64_t id : {0ull, 1ull, 127ull, 128ull, 16384ull, ~0ull}) {
    for (const bool full : {false, true}) {
      for (const bool others : {false, true}) {
        OutgoingRequest request;
        request.request_id = id;
        if (full) request.addresses_v6 = kFull;
        if (others) {
          request.addresses_v4 = kShort;
          request.table = "vrf-\xc3\xa4";
          request.min_generation = id / 3;
          request.max_wait_ms = static_cast<uint32_t>(id);
          request.want_prefix_lengths = true;
          request.require_complete = true;
        }
        requests.push_back(request);
        request.upper_halves_v6 = kUpper;
        requests.push_back(request);
        request.flow_hashes = kHashes;
        requests.push_back(request);
        request.upper_halves_v6 = {};
        requests.push_back(request);
      }
    }
  }
  return requests;
}

std::string Encoded(const OutgoingRequest& request) {
  std::string message(EncodedSize(request), '\xee');
  EXPECT_EQ(Encode(request, message.data()), message.data() + message.size());
  return message;
}

std::string String(absl::string_view bytes) {
  return std::string(bytes.data(), bytes.size());
}

v1::BatchLookupRequest Generated(const OutgoingRequest& request) {
  v1::BatchLookupRequest message;
  message.set_request_id(request.request_id);
  message.set_addresses_v6(String(request.addresses_v6));
  message.set_addresses_v4(String(request.addresses_v4));
  message.set_upper_halves_v6(String(request.upper_halves_v6));
  message.set_table(String(request.table));
  message.set_min_generation(request.min_generation);
  message.set_max_wait_ms(request.max_wait_ms);
  message.set_want_prefix_lengths(request.want_prefix_lengths);
  message.set_require_complete(request.require_complete);
  message.set_flow_hashes(String(request.flow_hashes));
  return message;
}

TEST(BatchRequest, EncodesLikeTheGeneratedCode) {
  for (const OutgoingRequest& request : Requests()) {
    const std::string encoded = Encoded(request);
    const v1::BatchLookupRequest expected = Generated(request);
    v1::BatchLookupRequest decoded;
    ASSERT_TRUE(decoded.ParseFromString(encoded));
    // The fields are the same, in another order.
    EXPECT_EQ(decoded.SerializeAsString(), expected.SerializeAsString());
    EXPECT_EQ(encoded.size(), expected.ByteSizeLong());
  }
}

TEST(BatchRequest, IsItsHeadAndItsTail) {
  for (const OutgoingRequest& request : Requests()) {
    std::string message(EncodedHeadSize(request), '\xee');
    ASSERT_EQ(EncodeHead(request, message.data()),
              message.data() + message.size());
    EXPECT_LE(message.size(),
              60 + request.table.size() + request.flow_hashes.size() +
                  request.addresses_v6.size() + request.addresses_v4.size());
    message += String(Tail(request));
    EXPECT_EQ(message, Encoded(request));
  }
}

TEST(BatchRequest, ReadsLikeTheGeneratedCode) {
  for (const OutgoingRequest& request : Requests()) {
    for (const std::string& message :
         {Encoded(request), Generated(request).SerializeAsString()}) {
      const absl::string_view piece = message;
      EXPECT_EQ(kRequest.by_hand({&piece, 1}), kRequest.generated(message));
    }
  }
}

TEST(BatchRequest, ReportsTheIdOfARefusedMessage) {
  BatchRequest request;
  request.table = "former";
  request.request_id = 7;
  const absl::string_view cut_short = "\x08\x05\x22\x01";
  EXPECT_FALSE(ParseBatchRequest({&cut_short, 1}, request));
  EXPECT_EQ(request.table, "former");
  EXPECT_EQ(request.request_id, 5u);  // read before the fault
}

TEST(BatchRequest, ReplacesAllFields) {
  BatchRequest request;
  request.table = "former";
  request.request_id = 7;
  EXPECT_TRUE(ParseBatchRequest({}, request));
  EXPECT_EQ(request.table, "");
  EXPECT_EQ(request.request_id, 0u);
}

std::vector<ResponseShape> Shapes() {
  std::vector<ResponseShape> shapes;
  for (const uint64_t id : {0ull, 1ull, 127ull, 128ull, 16384ull, ~0ull}) {
    for (const size_t addresses : {0, 1, 31, 32, 127, 128, 5000}) {
      shapes.push_back({id, ~id, addresses, false});
      shapes.push_back({id, id / 3, addresses, true});
    }
  }
  return shapes;
}

// With all next hops "abcd" and all lengths 'l'.
std::string Encoded(const ResponseShape& shape) {
  std::string message(EncodedSize(shape), '\xee');
  const ResponseBody body = EncodeAround(shape, message.data());
  const char* end = body.next_hops + 4 * shape.addresses;
  for (size_t i = 0; i < shape.addresses; ++i) {
    std::string("abcd").copy(body.next_hops + 4 * i, 4);
  }
  EXPECT_EQ(body.prefix_lengths != nullptr, shape.prefix_lengths);
  if (shape.prefix_lengths) {
    for (size_t i = 0; i < shape.addresses; ++i) body.prefix_lengths[i] = 'l';
    end = body.prefix_lengths + shape.addresses;
  }
  EXPECT_EQ(end, message.data() + message.size());
  return message;
}

TEST(BatchResponse, EncodesLikeTheGeneratedCode) {
  for (const ResponseShape& shape : Shapes()) {
    v1::BatchLookupResponse expected;
    expected.set_request_id(shape.request_id);
    expected.set_generation(shape.generation);
    for (size_t i = 0; i < shape.addresses; ++i) {
      *expected.mutable_next_hops() += "abcd";
      if (shape.prefix_lengths) *expected.mutable_prefix_lengths() += "l";
    }
    EXPECT_EQ(Encoded(shape), expected.SerializeAsString());
  }
}

TEST(BatchResponse, ReadsLikeTheGeneratedCode) {
  for (const ResponseShape& shape : Shapes()) {
    const std::string message = Encoded(shape);
    const absl::string_view piece = message;
    EXPECT_EQ(kResponse.by_hand({&piece, 1}), kResponse.generated(message));
  }
}

TEST(BatchResponse, ReadsAnError) {
  v1::BatchLookupResponse response;
  response.set_request_id(300);
  response.mutable_error()->set_code(3);
  response.mutable_error()->set_reason("ADDRESSES_LENGTH");
  const std::string message = response.SerializeAsString();
  const absl::string_view piece = message;
  BatchResponse read;
  ASSERT_TRUE(ParseBatchResponse({&piece, 1}, read));
  EXPECT_TRUE(read.has_error);
  EXPECT_EQ(read.request_id, 300u);
}

}  // namespace
}  // namespace planb::wire
