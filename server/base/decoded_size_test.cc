// SPDX-License-Identifier: Apache-2.0

#include "server/base/decoded_size.h"

#include <google/protobuf/arena.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/route_table.pb.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

constexpr size_t kNoLimit = size_t{1} << 40;

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

template <typename Message>
absl::StatusOr<size_t> Measure(const std::string& bytes,
                               const DecodedLimits& limits = {
                                   .bytes = kNoLimit}) {
  grpc::ByteBuffer buffer = Buffer(bytes);
  return DecodedSize<Message>(buffer, limits);
}

// Bytes of the heap in use. 0 where malloc is not the C library's.
size_t HeapBytes() {
#if defined(__SANITIZE_ADDRESS__)
  return 0;
#else
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
#endif
}

// Parses `bytes` and compares what that takes with what was told. Returns the
// bound; 0 if the message is malformed.
template <typename Message>
size_t Check(const std::string& bytes) {
  const absl::StatusOr<size_t> bound = Measure<Message>(bytes);
  const size_t before = HeapBytes();
  grpc::ByteBuffer buffer = Buffer(bytes);
  google::protobuf::Arena arena;
  auto& message = *google::protobuf::Arena::CreateMessage<Message>(&arena);
  const bool parsed = ParseAndFree(buffer, message).ok();
  if (!bound.ok()) {
    EXPECT_FALSE(parsed) << bound.status();
    EXPECT_EQ(ErrorReason(bound.status()), "MESSAGE_MALFORMED");
    return 0;
  }
  const size_t after = HeapBytes();
  EXPECT_LE(after, before + *bound) << bytes.size();
  EXPECT_LE(arena.SpaceAllocated(), *bound);
  EXPECT_LE(message.SpaceUsedLong(), *bound);
  return parsed ? *bound : 0;
}

std::string Field(int number, int wire_type) {
  return std::string(1, static_cast<char>(number << 3 | wire_type));
}

// All strings of up to two bytes, alone and as an entry of a list.
TEST(DecodedSize, BoundsEveryShortMessage) {
  std::vector<std::string> all = {""};
  for (size_t at = 0; at < all.size() && all[at].size() < 2; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      all.push_back(all[at] + static_cast<char>(byte));
    }
  }
  for (const std::string& bytes : all) {
    Check<v1::UpdateRoutesRequest>(bytes);
    Check<v1::UpdateNextHopsRequest>(bytes);
    Check<v1::LookupRequest>(bytes);
    const std::string size(1, static_cast<char>(bytes.size()));
    Check<v1::UpdateRoutesRequest>(Field(2, 2) + size + bytes);
    Check<v1::UpdateNextHopsRequest>(Field(4, 2) + size + bytes);
    Check<v1::LookupRequest>(Field(2, 2) + size + bytes);
  }
}

// A list of so many entries, each of `entry` bytes, in one field.
std::string List(int number, const std::string& entry, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += Field(number, 2) + static_cast<char>(entry.size()) + entry;
  }
  return bytes;
}

TEST(DecodedSize, BoundsListsOfEverySize) {
  const std::string prefix = Field(2, 2) + '\4' + Field(1, 2) + "\2ab";
  for (int count = 0; count < 3000; count += 1 + count / 50) {
    Check<v1::UpdateRoutesRequest>(List(2, "", count));
    Check<v1::UpdateRoutesRequest>(List(2, prefix, count));
    Check<v1::UpdateRoutesRequest>(List(3, "", count));
    Check<v1::UpdateRoutesRequest>(List(10, Field(2, 2) + '\0', count));
    Check<v1::UpdateNextHopsRequest>(List(3, std::string(5, '\1'), count));
    Check<v1::UpdateNextHopsRequest>(
        List(4, List(2, "", 20) + List(3, std::string(20, 'x'), 1), count));
    Check<v1::LookupRequest>(List(6, std::string(8, '\1'), count));
    std::string unpacked;
    for (int i = 0; i < count; ++i) unpacked += Field(3, 0) + '\1';
    Check<v1::UpdateNextHopsRequest>(unpacked);
  }
}

// Fields that the type does not have are kept.
TEST(DecodedSize, BoundsUnknownFields) {
  const std::string unknown[] = {
      Field(15, 0) + '\0',
      Field(15, 1) + std::string(8, '\0'),
      Field(15, 2) + '\0',
      Field(15, 2) + '\x28' + std::string(40, 'x'),
      Field(15, 3) + Field(15, 4),
      Field(15, 3) + List(15, "", 40) + Field(15, 4),
      Field(15, 5) + std::string(4, '\0'),
      Field(1, 0) + '\0',  // `table` as a number
  };
  for (const std::string& field : unknown) {
    for (int count = 1; count < 3000; count *= 3) {
      std::string bytes;
      for (int i = 0; i < count; ++i) bytes += field;
      EXPECT_GT(Check<v1::UpdateRoutesRequest>(bytes), 0u);
      EXPECT_GT(Check<v1::GetTableRequest>(bytes), 0u);
      // One in each entry of a list.
      if (field.size() < 100) {
        EXPECT_GT(Check<v1::UpdateRoutesRequest>(List(2, field, count)), 0u);
      }
    }
  }
}

TEST(DecodedSize, BoundsRandomMessages) {
  std::mt19937_64 random(1);
  int parsed = 0;
  const std::function<std::string(int)> message = [&](int depth) {
    std::string bytes;
    for (auto fields = random() % 20; fields > 0; --fields) {
      const int number = static_cast<int>(random() % 12 + 1);
      const int type = static_cast<int>(random() % 6);
      bytes += Field(number, type == 3 || type == 4 ? 2 : type);
      switch (type) {
        case 0:
          bytes += static_cast<char>(random() % 128);
          break;
        case 1:
          bytes += std::string(8, 'x');
          break;
        case 5:
          bytes += std::string(4, 'x');
          break;
        default: {
          const std::string inner =
              depth == 0 ? std::string(random() % 40, 'x') : message(depth - 1);
          if (inner.size() > 127) {
            bytes += static_cast<char>(inner.size() % 128 + 128);
            bytes += static_cast<char>(inner.size() / 128);
          } else {
            bytes += static_cast<char>(inner.size());
          }
          bytes += inner;
        }
      }
    }
    return bytes.size() < 16'000 ? bytes : "";
  };
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = message(static_cast<int>(random() % 3));
    if (random() % 4 == 0 && !bytes.empty()) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    parsed += Check<v1::UpdateRoutesRequest>(bytes) > 0 ? 1 : 0;
    parsed += Check<v1::UpdateNextHopsRequest>(bytes) > 0 ? 1 : 0;
    parsed += Check<v1::LookupRequest>(bytes) > 0 ? 1 : 0;
  }
  EXPECT_GT(parsed, 5000);
}

// An honest request is not refused for memory that it does not take.
TEST(DecodedSize, IsCloseForUpdates) {
  v1::UpdateRoutesRequest request;
  for (uint32_t i = 0; i < 50'000; ++i) {
    v1::RouteUpdate& update = *request.add_updates();
    update.set_op(v1::RouteUpdate::OP_UPSERT);
    update.mutable_prefix()->set_address(std::string(16, '\x20'));
    update.mutable_prefix()->set_length(128);
    update.set_next_hop_id(i + 1);
  }
  const size_t bound =
      Check<v1::UpdateRoutesRequest>(request.SerializeAsString());
  EXPECT_LT(bound, 2 * request.SpaceUsedLong());
  // A million changes fit into the default limit.
  EXPECT_LT(bound / 50'000, 256u);
}

TEST(DecodedSize, EndsAtTheFirstLimit) {
  const std::string three = List(2, "", 3);
  EXPECT_TRUE(
      Measure<v1::UpdateRoutesRequest>(three, {.entries = 3, .bytes = kNoLimit})
          .ok());
  // What follows is not read: it is malformed.
  const absl::Status many =
      Measure<v1::UpdateRoutesRequest>(three + "\xff",
                                       {.entries = 2, .bytes = kNoLimit})
          .status();
  EXPECT_EQ(ErrorReason(many), "BATCH_TOO_LARGE");
  EXPECT_EQ(many.message(), "updates: more than the limit of 2 entries");
  const size_t size = *Measure<v1::UpdateRoutesRequest>(three);
  EXPECT_TRUE(Measure<v1::UpdateRoutesRequest>(three, {.bytes = size}).ok());
  const absl::Status large =
      Measure<v1::UpdateRoutesRequest>(three + "\xff", {.bytes = size - 1})
          .status();
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(large), "REQUEST_TOO_LARGE");
  // Entries of packed lists count one by one, those of lists within entries
  // not.
  EXPECT_EQ(ErrorReason(
                Measure<v1::UpdateNextHopsRequest>(
                    List(3, "\1\x81\1\1", 1), {.entries = 2, .bytes = kNoLimit})
                    .status()),
            "BATCH_TOO_LARGE");
  EXPECT_TRUE(Measure<v1::UpdateNextHopsRequest>(
                  List(4, List(2, "", 9), 2), {.entries = 2, .bytes = kNoLimit})
                  .ok());
}

TEST(DecodedSize, SaysWhereAMessageIsMalformed) {
  const absl::Status status =
      Measure<v1::UpdateRoutesRequest>(List(2, "", 3) + "\x12\7x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), "MESSAGE_MALFORMED");
  EXPECT_EQ(status.message(),
            "the request cannot be parsed: the field at byte 6");
  grpc::ByteBuffer none;
  EXPECT_EQ(ErrorReason(DecodedSize<v1::LookupRequest>(none, {}).status()),
            "MESSAGE_MALFORMED");
  // A value that only the parser checks.
  grpc::ByteBuffer text = Buffer(Field(1, 2) + "\1\xff");
  v1::LookupRequest request;
  EXPECT_EQ(ErrorReason(ParseAndFree(text, request)), "MESSAGE_MALFORMED");
}

}  // namespace
}  // namespace planb::server
