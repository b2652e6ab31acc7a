// SPDX-License-Identifier: Apache-2.0

// The generated code reads back encoded requests, and malformed replies are
// detected.

#include "client/batch_codec.h"

#include <gmock/gmock.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/call.h"
#include "client/channel.h"
#include "planb/v1/route_lookup.pb.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::BatchLookupRequest Read(grpc::ByteBuffer buffer) {
  v1::BatchLookupRequest request;
  grpc::ProtoBufferReader reader(&buffer);
  EXPECT_TRUE(request.ParseFromZeroCopyStream(&reader));
  return request;
}

grpc::ByteBuffer Write(const v1::BatchLookupResponse& reply) {
  const grpc::Slice slice(reply.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

v1::BatchLookupResponse TwoNextHops() {
  v1::BatchLookupResponse reply;
  reply.set_request_id(5);
  reply.set_generation(9);
  reply.set_next_hops(std::string("\x01\x02\x03\x04\x00\x00\x00\x00", 8));
  return reply;
}

constexpr ExpectedReply kTwo = {.request_id = 5, .addresses = 2};

TEST(EncodeBatch, CarriesEveryField) {
  const std::string v6(16 * 3, '\x20');
  const std::string v4(4 * 2, '\x0a');
  const std::string upper(8 * 5, '\x2a');
  const std::vector<uint32_t> hashes(3 + 2 + 5, 0x04030201);
  const auto buffer =
      EncodeBatch(1ULL << 63, {.addresses_v6 = v6,
                               .addresses_v4 = v4,
                               .upper_halves_v6 = upper,
                               .flow_hashes = hashes,
                               .table = "blue",
                               .min_generation = 77,
                               .max_wait = absl::Microseconds(1),
                               .want_prefix_lengths = true});
  ASSERT_TRUE(buffer.ok());
  const v1::BatchLookupRequest request = Read(*buffer);
  EXPECT_EQ(request.request_id(), 1ULL << 63);
  EXPECT_EQ(request.addresses_v6(), v6);
  EXPECT_EQ(request.addresses_v4(), v4);
  EXPECT_EQ(request.upper_halves_v6(), upper);
  std::string bytes;  // little-endian on every machine
  for (int i = 0; i < 10; ++i) bytes += "\x01\x02\x03\x04";
  EXPECT_EQ(request.flow_hashes(), bytes);
  EXPECT_EQ(request.table(), "blue");
  EXPECT_EQ(request.min_generation(), 77U);
  EXPECT_EQ(request.max_wait_ms(), 1U);  // never shorter than asked for
  EXPECT_TRUE(request.want_prefix_lengths());
}

TEST(EncodeBatch, WaitsAreBoundedToTheField) {
  for (const auto& [wait, milliseconds] :
       {std::pair(absl::InfiniteDuration(), 0xffffffffU),
        std::pair(-absl::Seconds(1), 0U), std::pair(absl::Seconds(2), 2000U)}) {
    EXPECT_EQ(Read(*EncodeBatch(1, {.max_wait = wait})).max_wait_ms(),
              milliseconds);
  }
}

TEST(EncodeBatch, EmptyBatchAndEverySmallSize) {
  for (size_t size = 0; size < 300; ++size) {  // across varint boundaries
    const std::string bytes(size, 'x');
    const auto request = Read(*EncodeBatch(3, {.addresses_v4 = bytes}));
    EXPECT_EQ(request.addresses_v4(), bytes);
    EXPECT_EQ(request.request_id(), 3U);
  }
}

TEST(EncodeBatch, TooLongForAMessage) {
  const std::string most(kMaxMessageBytes - 64, 'x');
  EXPECT_EQ(Read(*EncodeBatch(1, {.addresses_v6 = most})).addresses_v6(), most);
  const std::string more(kMaxMessageBytes, 'x');
  EXPECT_EQ(EncodeBatch(1, {.addresses_v6 = more}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EncodeBatch, SendsFromABufferThatIsKept) {
  const auto bytes = std::make_shared<std::string>(16 * 300, '\x20');
  const std::string v4(4, '\x0a');
  for (const absl::string_view also : {absl::string_view(), {v4}}) {
    const std::vector<uint32_t> hashes(600 + also.size() / 4, 0x01010101);
    auto buffer = EncodeBatch(1, {.addresses_v4 = also,
                                  .upper_halves_v6 = *bytes,
                                  .flow_hashes = hashes,
                                  .keep_alive = bytes});
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(bytes.use_count(), 2);
    bytes->front() = '\x21';  // a change of it changes what is sent
    const v1::BatchLookupRequest request = Read(*buffer);
    EXPECT_EQ(request.upper_halves_v6(), *bytes);
    EXPECT_EQ(request.addresses_v4(), also);
    EXPECT_EQ(request.flow_hashes(), std::string(4 * hashes.size(), '\1'));
    buffer->Clear();
    EXPECT_EQ(bytes.use_count(), 1);
  }
}

TEST(EncodeBatch, RefusesWhatCannotBeAnswered) {
  const std::string bytes(24, 'x');
  std::vector<NextHopId> room(1 + 6 + 3);
  const Batch batch = {.addresses_v6 = bytes,
                       .addresses_v4 = bytes,
                       .upper_halves_v6 = bytes,
                       .next_hops = absl::MakeSpan(room)};
  EXPECT_EQ(AddressCount(batch), 10U);
  EXPECT_TRUE(EncodeBatch(1, batch).ok());
  room.push_back(0);
  Batch wrong = batch;
  wrong.next_hops = absl::MakeSpan(room);
  EXPECT_EQ(std::string(EncodeBatch(1, wrong).status().message()),
            "room for 11 next hops, for 10 addresses");
  const std::vector<uint32_t> hashes(9);
  wrong = batch;
  wrong.flow_hashes = hashes;
  EXPECT_EQ(std::string(EncodeBatch(1, wrong).status().message()),
            "9 flow hashes, for 10 addresses");
  EXPECT_EQ(EncodeBatch(1, {.table = "\xff"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// `reply` in slices of at most `size` bytes, as a transport may cut it.
grpc::ByteBuffer Cut(const v1::BatchLookupResponse& reply, size_t size) {
  const std::string bytes = reply.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += size) {
    slices.emplace_back(bytes.substr(at, size));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

TEST(DecodeReply, ReadsNextHopsLittleEndian) {
  grpc::ByteBuffer buffer = Write(TwoNextHops());
  BatchResult result;
  result.prefix_lengths = {1, 2, 3};  // of an earlier batch
  ASSERT_TRUE(DecodeReply(buffer, kTwo, result).ok());
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.request_id, 5U);
  EXPECT_EQ(result.generation, 9U);
  EXPECT_THAT(result.next_hops, ElementsAre(0x04030201U, kNoRoute));
  EXPECT_THAT(result.prefix_lengths, IsEmpty());
}

TEST(DecodeReply, ReadsPrefixLengths) {
  v1::BatchLookupResponse reply = TwoNextHops();
  reply.set_prefix_lengths("\x30\xff");
  grpc::ByteBuffer buffer = Write(reply);
  ExpectedReply expected = kTwo;
  expected.prefix_lengths = true;
  BatchResult result;
  ASSERT_TRUE(DecodeReply(buffer, expected, result).ok());
  EXPECT_THAT(result.prefix_lengths, ElementsAre(48, kNoPrefixLength));
}

TEST(DecodeReply, WritesWhereTheBatchSaid) {
  NextHopId room[] = {7, 7, 7};
  ExpectedReply expected = kTwo;
  expected.next_hops = absl::MakeSpan(room, 2);
  BatchResult result;
  result.next_hops = {1};  // of an earlier batch
  grpc::ByteBuffer buffer = Write(TwoNextHops());
  ASSERT_TRUE(DecodeReply(buffer, expected, result).ok());
  EXPECT_THAT(room, ElementsAre(0x04030201U, kNoRoute, 7));
  EXPECT_THAT(result.next_hops, IsEmpty());
}

TEST(DecodeReply, HoweverTheReplyIsCut) {
  v1::BatchLookupResponse reply = TwoNextHops();
  std::vector<NextHopId> due;
  reply.clear_next_hops();
  for (uint32_t i = 0; i < 300; ++i) {
    due.push_back(i * 0x01010101U);
    reply.mutable_next_hops()->append(4, static_cast<char>(i));
  }
  for (uint32_t i = 256; i < 300; ++i) due[i] = (i & 0xff) * 0x01010101U;
  for (size_t size = 1; size < 1300; size += 1 + size / 16) {
    grpc::ByteBuffer buffer = Cut(reply, size);
    BatchResult result;
    ASSERT_TRUE(
        DecodeReply(buffer, {.request_id = 5, .addresses = 300}, result).ok());
    ASSERT_EQ(result.next_hops, due) << size;
  }
}

TEST(DecodeReply, AnErrorInBandIsAResult) {
  v1::BatchLookupResponse reply = TwoNextHops();
  reply.clear_next_hops();
  reply.mutable_error()->set_code(5);
  reply.mutable_error()->set_reason("TABLE_NOT_FOUND");
  grpc::ByteBuffer buffer = Write(reply);
  BatchResult result;
  result.next_hops = {1, 2};
  NextHopId room[] = {7, 7};
  ExpectedReply expected = kTwo;
  expected.next_hops = absl::MakeSpan(room);
  ASSERT_TRUE(DecodeReply(buffer, expected, result).ok());
  EXPECT_THAT(room, ElementsAre(7, 7));
  EXPECT_EQ(ErrorReason(result.status), "TABLE_NOT_FOUND");
  EXPECT_EQ(result.generation, 9U);
  EXPECT_THAT(result.next_hops, IsEmpty());
}

void ExpectBroken(const v1::BatchLookupResponse& reply,
                  const ExpectedReply& expected, const std::string& why) {
  grpc::ByteBuffer buffer = Write(reply);
  BatchResult result;
  const absl::Status status = DecodeReply(buffer, expected, result);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(DecodeReply, RepliesThatAreNotDueAreCaught) {
  v1::BatchLookupResponse reply = TwoNextHops();
  ExpectBroken(reply, {.request_id = 6, .addresses = 2}, "has the id 5");
  ExpectBroken(reply, {.request_id = 5, .addresses = 3}, "for 3 addresses");
  ExpectBroken(reply, {5, 2, true}, "0 prefix lengths, not 2");
  reply.set_prefix_lengths("ab");
  ExpectBroken(reply, kTwo, "2 prefix lengths, not 0");

  const grpc::Slice slice(std::string("\xff\xff\xff"));
  grpc::ByteBuffer garbage(&slice, 1);
  BatchResult result;
  EXPECT_EQ(DecodeReply(garbage, kTwo, result).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace planb::client
