// SPDX-License-Identifier: Apache-2.0

// Unlike the generated code, these functions neither allocate nor touch
// addresses and answers.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "proto/wire/batch_messages.h"
#include "proto/wire/testing/made_up_messages.h"

namespace {

std::atomic<int> allocations = 0;

void* Allocate(size_t size) {
  ++allocations;
  void* const block = std::malloc(size);
  if (block == nullptr) std::abort();
  return block;
}

}  // namespace

// The other forms (arrays, nothrow) call these.
void* operator new(size_t size) { return Allocate(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace planb::wire {
namespace {

constexpr size_t kAddresses = 1 << 20;

// Memory for kAddresses addresses that can be neither read nor written.
class Forbidden {
 public:
  static constexpr size_t kSize = 16 * kAddresses;

  Forbidden()
      : begin_(static_cast<char*>(mmap(nullptr, kSize, PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(static_cast<void*>(begin_), MAP_FAILED);
  }
  ~Forbidden() { munmap(begin_, kSize); }
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;

  absl::string_view bytes() const { return {begin_, kSize}; }

 private:
  char* const begin_;
};

TEST(InPlace, AddressesAreNotTouched) {
  const Forbidden addresses;
  OutgoingRequest outgoing;
  outgoing.request_id = 1234;
  outgoing.table = "default";
  outgoing.addresses_v6 = addresses.bytes();
  std::string head(EncodedHeadSize(outgoing), '\0');
  EXPECT_EQ(EncodeHead(outgoing, head.data()), head.data() + head.size());
  EXPECT_EQ(Tail(outgoing).data(), addresses.bytes().data());

  const std::string more = VarintField(8, 0);  // field 8 is not a varint
  const std::string hashes = Key(9, 2) + Varint(Forbidden::kSize);
  const std::vector<absl::string_view> pieces = {head, addresses.bytes(), more,
                                                 hashes, addresses.bytes()};
  BatchRequest request;
  ASSERT_TRUE(ParseBatchRequest(pieces, request));
  EXPECT_EQ(request.request_id, 1234u);
  EXPECT_EQ(request.addresses_v6.size(), Forbidden::kSize);
  EXPECT_EQ(request.flow_hashes.size(), Forbidden::kSize);
  request.addresses_v6.ForEachRun<16>([&](const char* at, size_t count) {
    EXPECT_EQ(at, addresses.bytes().data());
    EXPECT_EQ(count, kAddresses);
  });
}

TEST(InPlace, AnswersAreNotTouched) {
  const Forbidden next_hops;
  const std::string head =
      VarintField(1, 1234) + Key(3, 2) + Varint(next_hops.bytes().size());
  const std::vector<absl::string_view> pieces = {head, next_hops.bytes()};
  BatchResponse response;
  ASSERT_TRUE(ParseBatchResponse(pieces, response));
  EXPECT_EQ(response.next_hops.size(), Forbidden::kSize);
}

// The messages have every field.
TEST(InPlace, NothingIsAllocated) {
  const std::string addresses(16 * 200, 'a');
  OutgoingRequest outgoing;
  outgoing.request_id = 1234;
  outgoing.table = "a name too long to be within a string";
  outgoing.addresses_v6 = addresses;
  outgoing.addresses_v4 = addresses;
  outgoing.upper_halves_v6 = addresses;
  outgoing.flow_hashes = addresses;
  std::string message(EncodedSize(outgoing), '\0');
  const std::string unknown = Groups(10, 50, BytesField(2048, "unknown"));
  const std::vector<absl::string_view> pieces = {
      absl::string_view(message).substr(0, 100),
      absl::string_view(message).substr(100), unknown};

  const ResponseShape shape = {1234, 99, 200, true};
  std::string reply(EncodedSize(shape), '\0');
  const std::string error =
      BytesField(5, VarintField(1, 5) + BytesField(4, "text"));
  const std::vector<absl::string_view> reply_pieces = {
      absl::string_view(reply).substr(0, 50),
      absl::string_view(reply).substr(50), error, unknown};

  BatchRequest request;
  request.table.reserve(outgoing.table.size());  // as after an earlier batch
  BatchResponse response;
  const int before = allocations;
  for (int i = 0; i < 3; ++i) {
    Encode(outgoing, message.data());
    EncodeHead(outgoing, message.data());
    Encode(outgoing, message.data());
    ASSERT_TRUE(ParseBatchRequest(pieces, request));
    EncodeAround(shape, reply.data());
    ASSERT_TRUE(ParseBatchResponse(reply_pieces, response));
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(request.table, outgoing.table);
  EXPECT_TRUE(response.has_error);
}

TEST(InPlace, AllocationsAreCounted) {
  const int before = allocations;
  // A request without room for its table's name.
  const std::string message = BytesField(4, std::string(100, 't'));
  const absl::string_view piece = message;
  const int between = allocations;
  EXPECT_GT(between, before);
  BatchRequest request;
  ASSERT_TRUE(ParseBatchRequest({&piece, 1}, request));
  EXPECT_EQ(allocations, between + 1);
}

}  // namespace
}  // namespace planb::wire
