// SPDX-License-Identifier: Apache-2.0

// Responses, read and written by hand, against the generated code.

#include "proto/wire/batch_response.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/testing/readings.h"

namespace planb::wire {
namespace {

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

TEST(BatchResponse, EncodesWhatTheGeneratedCodeWould) {
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

TEST(BatchResponse, ReadsWhatTheGeneratedCodeReads) {
  for (const ResponseShape& shape : Shapes()) {
    const std::string message = Encoded(shape);
    const absl::string_view piece = message;
    EXPECT_EQ(ResponseByHand({&piece, 1}), ResponseGenerated(message));
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
