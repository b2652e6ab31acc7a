// SPDX-License-Identifier: Apache-2.0

// RouteLookup as a client sees it, through real channels.

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "base/mutex.h"
#include "base/testing/await.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using Stream =
    grpc::ClientReaderWriter<v1::BatchLookupRequest, v1::BatchLookupResponse>;

std::string Packed(absl::string_view text) {
  return Address::Parse(text)->ToPacked();
}

std::vector<uint32_t> Ids(const v1::BatchLookupResponse& response) {
  std::vector<uint32_t> ids;
  const std::string& bytes = response.next_hops();
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    ids.push_back(
        static_cast<uint8_t>(bytes[i]) |
        static_cast<uint32_t>(static_cast<uint8_t>(bytes[i + 1])) << 8 |
        static_cast<uint32_t>(static_cast<uint8_t>(bytes[i + 2])) << 16 |
        static_cast<uint32_t>(static_cast<uint8_t>(bytes[i + 3])) << 24);
  }
  return ids;
}

v1::BatchLookupResponse Exchange(Stream& stream,
                                 const v1::BatchLookupRequest& request) {
  v1::BatchLookupResponse response;
  EXPECT_TRUE(stream.Write(request));
  EXPECT_TRUE(stream.Read(&response));
  return response;
}

TEST(Lookup, AnswersTypedWithExtras) {
  RunningServer running;
  v1::UpdateRoutesRequest update;
  auto& next_hop = *update.add_next_hops();
  next_hop.set_id(7);
  next_hop.set_label("north");
  next_hop.mutable_attributes()->set_origin_as(64496);
  auto& route = *update.add_updates();
  route.set_op(v1::RouteUpdate::OP_INSERT);
  route.mutable_prefix()->set_text("2001:db8::/32");
  route.set_next_hop_id(7);
  grpc::ClientContext update_context;
  v1::UpdateRoutesResponse updated;
  ASSERT_TRUE(
      running.table().UpdateRoutes(&update_context, update, &updated).ok());

  v1::LookupRequest request;
  request.add_addresses()->set_text("2001:db8::1");
  request.add_addresses()->set_packed(Packed("192.0.2.1"));
  request.set_want_prefix(true);
  request.set_want_next_hop(true);
  for (const auto& channel : {running.tcp(), running.unix_socket()}) {
    grpc::ClientContext context;
    v1::LookupResponse response;
    ASSERT_TRUE(v1::RouteLookup::NewStub(channel)
                    ->Lookup(&context, request, &response)
                    .ok());
    EXPECT_EQ(response.generation(), 1U);
    ASSERT_EQ(response.results_size(), 2);
    EXPECT_EQ(response.results(0).next_hop_id(), 7U);
    EXPECT_EQ(response.results(0).prefix().length(), 32U);
    EXPECT_EQ(response.results(0).next_hop().label(), "north");
    EXPECT_EQ(response.results(0).next_hop().attributes().origin_as(), 64496U);
    EXPECT_EQ(response.results(1).next_hop_id(), 0U);
    EXPECT_FALSE(response.results(1).has_prefix());
  }
}

TEST(Lookup, RefusesWithPreciseStatus) {
  ServerOptions options;
  options.lookup.max_lookup_addresses = 2;
  options.lookup.max_generation_wait = absl::Milliseconds(20);
  RunningServer running(options);
  const auto call = [&](const v1::LookupRequest& request) {
    grpc::ClientContext context;
    v1::LookupResponse response;
    return running.lookup().Lookup(&context, request, &response);
  };
  v1::LookupRequest request;
  request.add_addresses()->set_text("::1");
  request.add_addresses()->set_text("fe80::1%eth0");
  grpc::Status status = call(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "addresses[1]");
  EXPECT_EQ(ReasonOf(status), "ADDRESS_INVALID");

  request.mutable_addresses(1)->set_packed("abc");
  EXPECT_EQ(FieldOf(call(request)), "addresses[1]");
  request.mutable_addresses(1)->clear_form();
  EXPECT_EQ(FieldOf(call(request)), "addresses[1]");

  request.mutable_addresses(1)->set_text("::2");
  request.add_addresses()->set_text("::3");
  EXPECT_EQ(ReasonOf(call(request)), "BATCH_TOO_LARGE");
  request.mutable_addresses()->RemoveLast();
  request.add_flow_hashes(1);
  status = call(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "FLOW_HASHES_LENGTH");
  EXPECT_EQ(FieldOf(status), "flow_hashes");
  request.add_flow_hashes(1);
  EXPECT_TRUE(call(request).ok());
  request.clear_flow_hashes();
  request.clear_addresses();

  request.set_table("other");
  status = call(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "TABLE_NOT_FOUND");

  request.set_table("default");
  request.set_min_generation(1);
  status = call(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "GENERATION_NOT_VISIBLE");
}

// In one call, and in band, where the stream goes on; with and without prefixes
// that are found in slices.
TEST(Lookup, RefusesATableThatIsNotComplete) {
  RunningServer running;
  running.Announce({{"::/0", 1}});
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  for (const bool complete : {false, true, false}) {
    v1::UpdateRoutesRequest update;
    update.set_complete(complete);
    grpc::ClientContext update_context;
    v1::UpdateRoutesResponse updated;
    ASSERT_TRUE(
        running.table().UpdateRoutes(&update_context, update, &updated).ok());
    for (const bool required : {false, true}) {
      for (const bool prefixes : {false, true}) {
        v1::LookupRequest request;
        v1::BatchLookupRequest batch;
        for (size_t i = 0; i < 2 * kPrefixStep; ++i) {
          request.add_addresses()->set_text("::1");
          *batch.mutable_addresses_v6() += Packed("::1");
        }
        request.set_want_prefix(prefixes);
        request.set_require_complete(required);
        batch.set_want_prefix_lengths(prefixes);
        batch.set_require_complete(required);
        v1::LookupResponse response;
        grpc::ClientContext lookup_context;
        const grpc::Status status =
            running.lookup().Lookup(&lookup_context, request, &response);
        const v1::BatchLookupResponse reply = Exchange(*stream, batch);
        EXPECT_EQ(reply.generation(), updated.generation());
        if (complete || !required) {
          EXPECT_TRUE(status.ok()) << status.error_message();
          EXPECT_EQ(response.results(0).next_hop_id(), 1U);
          EXPECT_EQ(Ids(reply), std::vector<uint32_t>(2 * kPrefixStep, 1));
          continue;
        }
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
        EXPECT_EQ(ReasonOf(status), "TABLE_NOT_COMPLETE");
        EXPECT_EQ(
            DetailOf<google::rpc::RetryInfo>(status).retry_delay().seconds(),
            1);
        EXPECT_EQ(reply.error().code(), 14);
        EXPECT_EQ(reply.error().reason(), "TABLE_NOT_COMPLETE");
      }
    }
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(BatchLookup, AnswersInOrderBothFamilies) {
  RunningServer running;
  running.Announce({{"2001:db8::/32", 0x01020304}, {"10.0.0.0/8", 5}});
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  request.set_request_id(77);
  request.set_addresses_v6(Packed("2001:db8::1") + Packed("2001:db9::"));
  request.set_addresses_v4(Packed("10.1.1.1") + Packed("11.0.0.0"));
  request.set_want_prefix_lengths(true);
  const v1::BatchLookupResponse response = Exchange(*stream, request);
  EXPECT_EQ(response.request_id(), 77U);
  EXPECT_EQ(response.generation(), 1U);
  EXPECT_FALSE(response.has_error());
  EXPECT_EQ(Ids(response), (std::vector<uint32_t>{0x01020304, 0, 5, 0}));
  EXPECT_EQ(response.prefix_lengths(), "\x20\xff\x08\xff");
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(BatchLookup, AnswersEmptyBatch) {
  RunningServer running;
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  const auto response = Exchange(*stream, {});
  EXPECT_EQ(response.next_hops(), "");
  EXPECT_FALSE(response.has_error());
}

TEST(BatchLookup, BadBatchFailsAlone) {
  ServerOptions options;
  options.lookup.max_batch_addresses = 3;
  RunningServer running(options);
  running.Announce({{"::/0", 9}});
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  const auto expect_error = [&](const v1::BatchLookupRequest& request, int code,
                                const char* reason, const char* field) {
    const auto response = Exchange(*stream, request);
    EXPECT_EQ(response.request_id(), request.request_id());
    EXPECT_EQ(response.error().code(), code);
    EXPECT_EQ(response.error().reason(), reason);
    EXPECT_EQ(response.error().field(), field);
    EXPECT_NE(response.error().message(), "");
    EXPECT_EQ(response.next_hops(), "");
  };
  v1::BatchLookupRequest odd;
  odd.set_request_id(1);
  odd.set_addresses_v6(std::string(17, '\0'));
  expect_error(odd, 3, "ADDRESSES_LENGTH", "addresses_v6");
  odd.set_addresses_v6("");
  odd.set_addresses_v4(std::string(3, '\0'));
  expect_error(odd, 3, "ADDRESSES_LENGTH", "addresses_v4");
  odd.set_addresses_v4(std::string(8, '\0'));
  odd.set_flow_hashes(std::string(12, '\0'));
  expect_error(odd, 3, "FLOW_HASHES_LENGTH", "flow_hashes");
  v1::BatchLookupRequest large;
  large.set_request_id(2);
  large.set_addresses_v6(std::string(64, '\0'));
  expect_error(large, 8, "BATCH_TOO_LARGE", "");
  v1::BatchLookupRequest lost;
  lost.set_table("nowhere");
  expect_error(lost, 5, "TABLE_NOT_FOUND", "table");
  // Quoting a part of it must not break a character, and the reply with it.
  lost.set_table(std::string(62, 'a') + "\u00e9\u00e9\u00e9");
  expect_error(lost, 5, "TABLE_NOT_FOUND", "table");
  lost.set_table(std::string(63, 'a') + "\u00e9\u00e9\u00e9");
  expect_error(lost, 5, "TABLE_NOT_FOUND", "table");
  v1::BatchLookupRequest early;
  early.set_min_generation(2);
  expect_error(early, 9, "GENERATION_NOT_VISIBLE", "min_generation");
  // The stream goes on.
  v1::BatchLookupRequest good;
  good.set_addresses_v6(Packed("::1"));
  good.set_flow_hashes("hash");
  EXPECT_EQ(Ids(Exchange(*stream, good)), std::vector<uint32_t>{9});
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(BatchLookup, AnswersUpperHalvesLast) {
  RunningServer running;
  running.Announce({{"2001:db8::/32", 1},
                    {"2001:db8:0:1::/64", 2},
                    {"2001:db8:0:2::1/128", 3},
                    {"2001:db8:0:3::/64", 4},
                    {"2001:db8:0:3::/96", 4},  // longer, and the same hop
                    {"10.0.0.0/8", 5}});
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  for (const char* half : {"2001:db8::", "2001:db8:0:1::", "2001:db8:0:2::",
                           "2001:db8:0:3::", "2001:db9::"}) {
    *request.mutable_upper_halves_v6() += Packed(half).substr(0, 8);
  }
  EXPECT_EQ(Ids(Exchange(*stream, request)),
            (std::vector<uint32_t>{1, 2, kUndecided, 4, 0}));
  // The full address decides what its upper half leaves undecided.
  request.set_addresses_v6(Packed("2001:db8:0:2::1") +
                           Packed("2001:db8:0:2::2"));
  request.set_addresses_v4(Packed("10.0.0.1"));
  const auto response = Exchange(*stream, request);
  EXPECT_FALSE(response.has_error());
  EXPECT_EQ(Ids(response),
            (std::vector<uint32_t>{3, 1, 5, 1, 2, kUndecided, 4, 0}));
}

TEST(BatchLookup, BadUpperHalvesFailAlone) {
  RunningServer running;
  running.Announce({{"::/0", 9}});
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  for (const size_t bytes : {1, 7, 9, 12, 20}) {
    request.set_upper_halves_v6(std::string(bytes, '\1'));
    const auto response = Exchange(*stream, request);
    EXPECT_EQ(response.error().code(), 3) << bytes;
    EXPECT_EQ(response.error().reason(), "ADDRESSES_LENGTH") << bytes;
    EXPECT_EQ(response.error().field(), "upper_halves_v6") << bytes;
    EXPECT_EQ(response.next_hops(), "");
  }
  request.set_upper_halves_v6(std::string(8, '\1'));
  request.set_want_prefix_lengths(true);
  const auto response = Exchange(*stream, request);
  EXPECT_EQ(response.error().code(), 3);
  EXPECT_EQ(response.error().reason(), "PREFIX_LENGTHS_UNDECIDED");
  EXPECT_EQ(response.error().field(), "want_prefix_lengths");
  EXPECT_EQ(response.next_hops(), "");
  EXPECT_EQ(response.prefix_lengths(), "");
  request.clear_want_prefix_lengths();
  EXPECT_EQ(Ids(Exchange(*stream, request)), std::vector<uint32_t>{9});
}

TEST(BatchLookup, MalformedMessageFailsAlone) {
  RunningServer running;
  grpc::ClientContext context;
  using RawFactory =
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer,
                                                v1::BatchLookupResponse>;
  const grpc::internal::RpcMethod method(
      "/planb.v1.RouteLookup/BatchLookup",
      grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<
      grpc::ClientReaderWriter<grpc::ByteBuffer, v1::BatchLookupResponse>>
      stream(RawFactory::Create(running.tcp().get(), method, &context));
  const auto write = [&](const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return stream->Write(grpc::ByteBuffer(&slice, 1));
  };
  v1::BatchLookupResponse response;
  ASSERT_TRUE(write(std::string("\x08\x05", 2)));  // request_id: 5
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.request_id(), 5U);
  // The reply has the request_id if it was before the bad bytes.
  for (const auto& [bytes, id] :
       {std::pair(std::string("\xff\xff\xff"), 0U),
        std::pair(std::string("\x08\x07\xff\xff"), 7U)}) {
    ASSERT_TRUE(write(bytes));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.request_id(), id);
    EXPECT_EQ(response.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(response.error().reason(), "MESSAGE_MALFORMED");
  }
  ASSERT_TRUE(write(std::string("\x08\x06", 2)));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.request_id(), 6U);
  EXPECT_FALSE(response.has_error());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(BatchLookup, CancelledStreamFreesItsPlace) {
  ServerOptions options;
  options.lookup.max_streams = 1;
  options.lookup.max_generation_wait = absl::Hours(1);
  RunningServer running(options);
  v1::BatchLookupRequest waiting;
  waiting.set_min_generation(99);
  waiting.set_max_wait_ms(3'600'000);
  {
    grpc::ClientContext context;
    const auto stream = running.lookup().BatchLookup(&context);
    Exchange(*stream, {});
    ASSERT_TRUE(stream->Write(waiting));
    absl::SleepFor(absl::Milliseconds(20));  // either order must do
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // Its place is free at once, not after an hour.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (absl::Now() < deadline) {
    grpc::ClientContext context;
    const auto stream = running.lookup().BatchLookup(&context);
    v1::BatchLookupResponse response;
    stream->Write({});
    const bool open = stream->Read(&response);
    stream->WritesDone();
    const grpc::Status ended = stream->Finish();
    ASSERT_TRUE(open ? ended.ok() : ReasonOf(ended) == "TOO_MANY_STREAMS");
    if (open) return;
    absl::SleepFor(absl::Milliseconds(10));
  }
  FAIL() << "the stream that was cancelled still counts";
}

TEST(BatchLookup, WaitsForTheGenerationAsked) {
  RunningServer running;
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  request.set_min_generation(1);
  request.set_max_wait_ms(60'000);
  request.set_addresses_v6(Packed("::1"));
  ASSERT_TRUE(stream->Write(request));
  request.clear_min_generation();
  ASSERT_TRUE(stream->Write(request));
  absl::Notification first_read;
  std::thread announcer([&] {
    // Gives the read below time to see an answer that comes too early.
    EXPECT_FALSE(
        first_read.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
    running.Announce({{"::/0", 4}});
  });
  for (int i = 0; i < 2; ++i) {
    v1::BatchLookupResponse response;
    ASSERT_TRUE(stream->Read(&response));
    if (i == 0) first_read.Notify();
    EXPECT_EQ(response.generation(), 1U);
    EXPECT_EQ(Ids(response), std::vector<uint32_t>{4});
  }
  announcer.join();
}

// While a batch waits, its worker reads other batches, also in many pieces.
TEST(BatchLookup, AWaitingBatchKeepsItsAddresses) {
  constexpr size_t kAddresses = 10'000;
  ServerOptions options;
  options.threads.count = 1;
  RunningServer running(options);
  running.Announce({{"10.0.0.0/8", 1}});
  v1::BatchLookupRequest waiting;
  waiting.set_request_id(7);
  waiting.set_min_generation(2);
  waiting.set_max_wait_ms(60'000);
  v1::BatchLookupRequest other;
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < kAddresses; ++i) {
    const bool first = i % 3 == 0;
    *waiting.mutable_addresses_v4() += Packed(first ? "10.1.2.3" : "11.1.2.3");
    expected.push_back(first ? 1 : 2);
    *other.mutable_addresses_v6() += Packed("2001:db8::1");
  }
  grpc::ClientContext waiting_context, other_context;
  const auto stream = running.lookup().BatchLookup(&waiting_context);
  const auto others = running.lookup().BatchLookup(&other_context);
  ASSERT_TRUE(stream->Write(waiting));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ids(Exchange(*others, other)),
              std::vector<uint32_t>(kAddresses, 0));
  }
  running.Announce({{"11.0.0.0/8", 2}});
  v1::BatchLookupResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.request_id(), 7U);
  EXPECT_EQ(response.generation(), 2U);
  EXPECT_EQ(Ids(response), expected);
}

// So many equal Lookup calls at once.
class Lookups {
 public:
  Lookups(RunningServer& running, const v1::LookupRequest& request,
          size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Call& call = calls_.emplace_back();
      running.lookup().async()->Lookup(&call.context, &request, &call.response,
                                       [this](const grpc::Status& status) {
                                         const MutexLock lock(mutex_);
                                         ended_.push_back(status);
                                         changed_.notify_all();
                                       });
    }
  }
  ~Lookups() { Ended(calls_.size()); }

  // The statuses once so many have ended.
  std::vector<grpc::Status> Ended(size_t count) {
    MutexLock lock(mutex_);
    changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_.size() >= count;
    });
    return ended_;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::LookupResponse response;
  };
  std::deque<Call> calls_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<grpc::Status> ended_;
};

TEST(Lookup, CallsThatWaitForAGenerationHaveABoundedMemory) {
  constexpr size_t kCalls = 50;
  ServerOptions options;
  options.lookup.max_waiting_bytes = 300'000;
  RunningServer running(options);
  v1::LookupRequest request;
  for (size_t i = 0; i < options.lookup.max_lookup_addresses; ++i) {
    request.add_addresses()->set_text("::1");
  }
  request.set_min_generation(1);
  Lookups lookups(running, request, kCalls);
  // Two wait: each has nearly 100 KB of addresses, and some besides.
  for (const grpc::Status& status : lookups.Ended(kCalls - 2)) {
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "TOO_MANY_WAITERS");
  }
  running.Announce({{"::/0", 4}});
  const auto ended = lookups.Ended(kCalls);
  EXPECT_TRUE(ended[kCalls - 2].ok()) << ended[kCalls - 2].error_message();
  EXPECT_TRUE(ended[kCalls - 1].ok()) << ended[kCalls - 1].error_message();
}

// One thread, and more prefix lengths in a batch than it finds in a slice.
ServerOptions SlowOptions() {
  ServerOptions options;
  options.threads.count = 1;
  options.lookup.max_lookup_addresses = 1 << 15;
  return options;
}

// Announces ::/1 to ::/128.
void AnnounceNested(RunningServer& running) {
  v1::UpdateRoutesRequest update;
  for (uint32_t length = 1; length <= 128; ++length) {
    v1::RouteUpdate& route = *update.add_updates();
    route.set_op(v1::RouteUpdate::OP_UPSERT);
    route.mutable_prefix()->set_address(std::string(16, '\0'));
    route.mutable_prefix()->set_length(length);
    route.set_next_hop_id(length);
  }
  grpc::ClientContext context;
  v1::UpdateRoutesResponse updated;
  ASSERT_TRUE(running.table().UpdateRoutes(&context, update, &updated).ok());
}

// Addresses within these prefixes, and the lengths of the longest.
v1::BatchLookupRequest SlowBatch(std::string* lengths) {
  v1::BatchLookupRequest slow;
  for (uint32_t i = 0; i < 1 << 15; ++i) {
    // The first bit that is not 0 ends the match.
    const int zeros = static_cast<int>(i % 128);
    *slow.mutable_addresses_v6() +=
        Address::V6(absl::uint128(1) << (127 - zeros)).ToPacked();
    if (lengths == nullptr) continue;
    *lengths += static_cast<char>(zeros == 0 ? 255 : zeros);
  }
  slow.set_want_prefix_lengths(true);
  return slow;
}

constexpr int kSlowBatches = 3;

// Sends slow batches on a stream, and one small batch after the other on
// another. Returns how many of these are answered while a slow one is served.
int ServedMeanwhile(RunningServer& running) {
  std::string lengths;
  const v1::BatchLookupRequest slow = SlowBatch(&lengths);
  v1::BatchLookupRequest quick;
  quick.set_addresses_v6(Packed("::1"));
  grpc::ClientContext slow_context, context;
  const auto slow_stream = running.lookup().BatchLookup(&slow_context);
  const auto stream = running.lookup().BatchLookup(&context);
  EXPECT_EQ(Ids(Exchange(*stream, quick)), std::vector<uint32_t>{127});
  std::atomic<int> slow_answers{0};
  std::thread reader([&] {
    v1::BatchLookupResponse response;
    while (slow_stream->Read(&response)) {
      EXPECT_EQ(response.prefix_lengths(), lengths);
      slow_answers.fetch_add(1);
    }
  });
  for (int i = 0; i < kSlowBatches; ++i) EXPECT_TRUE(slow_stream->Write(slow));
  slow_stream->WritesDone();
  // From the first answer to the last, a slow batch is being served.
  int served = 0;
  while (slow_answers.load() < kSlowBatches) {
    const bool between = slow_answers.load() > 0;
    EXPECT_EQ(Ids(Exchange(*stream, quick)), std::vector<uint32_t>{127});
    if (between && slow_answers.load() < kSlowBatches) ++served;
  }
  reader.join();
  EXPECT_TRUE(slow_stream->Finish().ok());
  return served;
}

// A batch that wants prefix lengths takes long. The one thread serves other
// streams meanwhile. With slices that never end, 18 batches at most are
// answered while slow ones are sent and read; with those of today up to 200,
// and fewer in attempts that a busy machine disturbs.
TEST(BatchLookup, PrefixLengthsDoNotDelayOtherStreams) {
  RunningServer running(SlowOptions());
  AnnounceNested(running);
  constexpr int kEnough = 10 * kSlowBatches;
  int most = 0;
  for (int attempt = 0; attempt < 100 && most < kEnough; ++attempt) {
    most = std::max(most, ServedMeanwhile(running));
  }
  EXPECT_GE(most, kEnough);
}

// Creates a table and announces the routes in it.
void MakeTable(RunningServer& running, const std::string& name,
               bool prefix_lengths, absl::Span<const Route> routes) {
  v1::CreateTableRequest create;
  create.set_table(name);
  create.set_prefix_lengths(prefix_lengths);
  grpc::ClientContext create_context, update_context;
  v1::Table created;
  ASSERT_TRUE(
      running.table().CreateTable(&create_context, create, &created).ok());
  EXPECT_EQ(created.prefix_lengths(), prefix_lengths);
  v1::UpdateRoutesRequest update;
  update.set_table(name);
  for (const Route& route : routes) {
    v1::RouteUpdate& change = *update.add_updates();
    change.set_op(v1::RouteUpdate::OP_UPSERT);
    change.mutable_prefix()->set_text(route.prefix.ToString());
    change.set_next_hop_id(route.next_hop);
  }
  v1::UpdateRoutesResponse updated;
  ASSERT_TRUE(
      running.table().UpdateRoutes(&update_context, update, &updated).ok());
}

// The same routes in a table that keeps prefix lengths and in one that does
// not: same answers, and there in a batch of any size.
TEST(BatchLookup, KeptPrefixLengthsAreThoseOfTheRoutesInBatchesOfAnySize) {
  ServerOptions options;
  options.threads.count = 1;
  RunningServer running(options);
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 3000, .ipv4_routes = 1000});
  for (const bool kept : {false, true}) {
    MakeTable(running, kept ? "kept" : "plain", kept, routes);
  }
  std::vector<Route> v6;
  for (const Route& route : routes) {
    if (route.prefix.family() == Family::kIpv6) v6.push_back(route);
  }
  constexpr size_t kMost = 65'536;
  constexpr size_t kSlice = 4096;
  std::string addresses;
  for (const Address& address :
       SyntheticTrace(v6, Family::kIpv6, kMost / 2, 1)) {
    addresses += address.ToPacked();
  }
  for (const Address& address : UniformProbes(Family::kIpv6, kMost / 2, 2)) {
    addresses += address.ToPacked();
  }

  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  request.set_want_prefix_lengths(true);
  request.set_table("plain");
  std::string next_hops, lengths;
  for (size_t at = 0; at < addresses.size(); at += 16 * kSlice) {
    request.set_addresses_v6(addresses.substr(at, 16 * kSlice));
    const auto response = Exchange(*stream, request);
    ASSERT_FALSE(response.has_error()) << response.error().message();
    next_hops += response.next_hops();
    lengths += response.prefix_lengths();
  }
  ASSERT_EQ(lengths.size(), kMost);
  request.set_addresses_v6(addresses);
  EXPECT_EQ(Exchange(*stream, request).error().reason(), "BATCH_TOO_LARGE");

  request.set_table("kept");
  for (const size_t batch : {size_t{1}, kSlice, kMost}) {
    const size_t most = batch == 1 ? 100 : kMost;
    for (size_t at = 0; at < most; at += batch) {
      request.set_addresses_v6(addresses.substr(16 * at, 16 * batch));
      const auto response = Exchange(*stream, request);
      ASSERT_FALSE(response.has_error()) << response.error().message();
      ASSERT_EQ(response.next_hops(), next_hops.substr(4 * at, 4 * batch));
      ASSERT_EQ(response.prefix_lengths(), lengths.substr(at, batch));
    }
  }
  // Without a wish for lengths there are none.
  request.set_want_prefix_lengths(false);
  const auto plain = Exchange(*stream, request);
  EXPECT_EQ(plain.next_hops(), next_hops);
  EXPECT_EQ(plain.prefix_lengths(), "");

  // Single addresses of both families, with their prefixes.
  v1::LookupRequest lookup;
  lookup.set_want_prefix(true);
  for (size_t i = 0; i < 1000; ++i) {
    lookup.add_addresses()->set_packed(addresses.substr(16 * i, 16));
  }
  for (const Address& address : UniformProbes(Family::kIpv4, 1000, 3)) {
    lookup.add_addresses()->set_packed(address.ToPacked());
  }
  std::array<v1::LookupResponse, 2> found;
  for (const bool kept : {false, true}) {
    lookup.set_table(kept ? "kept" : "plain");
    grpc::ClientContext call;
    ASSERT_TRUE(running.lookup().Lookup(&call, lookup, &found[kept]).ok());
    found[kept].clear_generation();
  }
  for (int i = 0; i < 1000; ++i) {
    const v1::LookupResult& result = found[0].results(i);
    ASSERT_EQ(result.has_prefix() ? result.prefix().length() : 255U,
              static_cast<uint8_t>(lengths[static_cast<size_t>(i)]));
  }
  EXPECT_EQ(found[0].SerializeAsString(), found[1].SerializeAsString());
}

TEST(Lookup, FindsPrefixesBetweenOtherWork) {
  RunningServer running(SlowOptions());
  AnnounceNested(running);
  v1::LookupRequest slow;
  std::string lengths;
  const std::string addresses = SlowBatch(&lengths).addresses_v6();
  for (size_t at = 0; at < addresses.size(); at += 16) {
    slow.add_addresses()->set_packed(addresses.substr(at, 16));
  }
  slow.set_want_prefix(true);
  constexpr int kCalls = 4;
  std::atomic<int> ended{0};
  std::thread caller([&] {
    for (int call = 0; call < kCalls; ++call) {
      grpc::ClientContext context;
      v1::LookupResponse response;
      EXPECT_TRUE(running.lookup().Lookup(&context, slow, &response).ok());
      EXPECT_EQ(response.results_size(), 1 << 15);
      for (int i = 0; i < response.results_size(); ++i) {
        const auto length =
            static_cast<uint8_t>(lengths[static_cast<size_t>(i)]);
        EXPECT_EQ(response.results(i).has_prefix(), length != 255);
        EXPECT_EQ(response.results(i).prefix().length(),
                  length == 255 ? 0 : length);
      }
      ended.fetch_add(1);
    }
  });
  v1::BatchLookupRequest quick;
  quick.set_addresses_v6(Packed("::1"));
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  while (ended.load() < kCalls) {
    EXPECT_EQ(Ids(Exchange(*stream, quick)), std::vector<uint32_t>{127});
  }
  caller.join();
}

TEST(Lookup, CallsBetweenOtherWorkHaveABoundedMemory) {
  constexpr size_t kCalls = 20;
  ServerOptions options = SlowOptions();
  options.lookup.max_waiting_bytes = 1;  // one call may have any
  RunningServer running(options);
  AnnounceNested(running);
  v1::LookupRequest slow;
  for (int i = 0; i < 1 << 14; ++i) slow.add_addresses()->set_text("::1");
  slow.set_want_prefix(true);
  Lookups lookups(running, slow, kCalls);
  size_t refused = 0;
  for (const grpc::Status& status : lookups.Ended(kCalls)) {
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "TOO_MANY_WAITERS");
  }
  EXPECT_GT(refused, 0U);
  EXPECT_LT(refused, kCalls);
  // Nothing is left taken.
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    v1::LookupResponse response;
    EXPECT_TRUE(running.lookup().Lookup(&context, slow, &response).ok());
  }
}

// Streams end, and the server stops, while prefix lengths are being found.
TEST(BatchLookup, PrefixLengthsEndWithStreamAndServer) {
  // gRPC stays: its end may take 10 s, and it ends with its last channel.
  const auto channel = RunningServer::Connect("unix:///nowhere");
  for (int round = 0; round < 10; ++round) {
    RunningServer running(SlowOptions());
    AnnounceNested(running);
    const v1::BatchLookupRequest slow = SlowBatch(nullptr);
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 4; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      streams.push_back(running.lookup().BatchLookup(contexts.back().get()));
      EXPECT_TRUE(streams.back()->Write(slow));
    }
    for (int i = 0; i < 2; ++i) contexts[static_cast<size_t>(i)]->TryCancel();
    if (round % 2 == 0) {
      v1::BatchLookupResponse response;
      EXPECT_TRUE(streams.back()->Read(&response));
      EXPECT_EQ(response.prefix_lengths().size(), size_t{1} << 15);
    }
    running.Stop();
    for (const auto& stream : streams) {
      v1::BatchLookupResponse response;
      while (stream->Read(&response)) {
      }
      EXPECT_FALSE(stream->Finish().ok());
    }
  }
}

// Flow control stops a client that sends and never reads. Other clients are
// served.
TEST(BatchLookup, SlowReaderDoesNotDelayOthers) {
  RunningServer running;
  running.Announce({{"::/0", 4}});
  v1::BatchLookupRequest request;
  request.set_addresses_v6(std::string(16 << 14, '\1'));
  const auto slow_channel =
      RunningServer::Connect(absl::StrCat("unix://", running.socket()));
  const auto slow_stub = v1::RouteLookup::NewStub(slow_channel);
  grpc::ClientContext slow_context;
  const auto slow = slow_stub->BatchLookup(&slow_context);
  std::atomic<int> sent{0};
  std::thread sender([&] {
    while (sent.load() < 20'000 && slow->Write(request)) sent.fetch_add(1);
  });
  // The sender stops making progress long before it has sent 5 GB.
  int before = -1;
  while (before != sent.load()) {
    before = sent.load();
    absl::SleepFor(absl::Milliseconds(300));
  }
  EXPECT_LT(sent.load(), 1000);
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(Ids(Exchange(*stream, request)).size(), size_t{1} << 14);
    EXPECT_EQ(running.Announce({{"::/0", 5 + i}}), 2U + i);
  }
  slow_context.TryCancel();
  sender.join();
  v1::BatchLookupResponse response;
  while (slow->Read(&response)) {
  }
  EXPECT_EQ(slow->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(BatchLookup, StreamsAreBounded) {
  ServerOptions options;
  options.lookup.max_streams = 1;
  RunningServer running(options);
  grpc::ClientContext first_context;
  const auto first = running.lookup().BatchLookup(&first_context);
  Exchange(*first, {});
  grpc::ClientContext second_context;
  const auto second = running.lookup().BatchLookup(&second_context);
  v1::BatchLookupResponse response;
  EXPECT_FALSE(second->Read(&response));
  const grpc::Status refused = second->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(refused), "TOO_MANY_STREAMS");
  EXPECT_GT(DetailOf<google::rpc::RetryInfo>(refused).retry_delay().seconds(),
            0);
}

// Drains that wait for no client, which would take until the test is ended.
constexpr absl::Duration kForever = absl::Hours(1);

TEST(Drain, AnswersWhatIsInFlightThenEndsStreams) {
  ServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  options.lookup.max_generation_wait = kForever;
  RunningServer running(options);
  running.Announce({{"::/0", 4}});
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest waiting;
  Exchange(*stream, waiting);
  waiting.set_request_id(5);
  waiting.set_min_generation(99);
  waiting.set_max_wait_ms(3'600'000);
  ASSERT_TRUE(stream->Write(waiting));
  const std::string received =
      absl::StrCat("\nplanb_lookup_bytes_total{direction=\"received\"} ",
                   waiting.ByteSizeLong(), "\n");
  EXPECT_TRUE(Await([&] {
    return absl::StrContains(
        HttpGet(running.server().metrics_port(), "/metrics"), received);
  }));
  running.server().Drain(kForever);
  v1::BatchLookupResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.request_id(), 5U);
  EXPECT_EQ(response.error().code(), 14);
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status ended = stream->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(ended), "DRAINING");
}

TEST(Drain, EndsIdleStreamsAtOnce) {
  RunningServer running;
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  Exchange(*stream, {});
  std::thread reader([&] {
    v1::BatchLookupResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  });
  running.server().Drain(kForever);
  reader.join();
}

// Compared with the oracle on a table with both families and long prefixes.
TEST(BatchLookup, AgreesWithTheOracle) {
  ServerOptions options;
  options.initial.generate_v6 = 2000;
  options.initial.generate_v4 = 1000;
  options.initial.seed = 3;
  RunningServer running(options);
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 2000, .ipv4_routes = 1000, .seed = 3});
  const Oracle oracle(routes);
  std::vector<Address> v6 = SyntheticTrace(routes, Family::kIpv6, 3001, 1);
  const std::vector<Address> v4 =
      SyntheticTrace(routes, Family::kIpv4, 1003, 2);
  v1::BatchLookupRequest request;
  for (const Address& a : v6) *request.mutable_addresses_v6() += a.ToPacked();
  for (const Address& a : v4) *request.mutable_addresses_v4() += a.ToPacked();
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  const std::vector<uint32_t> ids = Ids(Exchange(*stream, request));
  v6.insert(v6.end(), v4.begin(), v4.end());
  ASSERT_EQ(ids.size(), v6.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto expected = oracle.Lookup(v6[i]);
    EXPECT_EQ(ids[i], expected.has_value() ? expected->next_hop : 0)
        << v6[i].ToString();
  }
}

// Calls end while the server shuts down. gRPC aborts if an operation is started
// on a queue that has ended.
TEST(BatchLookup, StreamsMayEndWhileServerShutsDown) {
  for (int round = 0; round < 40; ++round) {
    std::vector<std::thread> clients;
    {
      RunningServer running;
      constexpr int kClients = 4;
      absl::BlockingCounter ready(kClients);
      for (int i = 0; i < kClients; ++i) {
        const auto channel = i < 2 ? running.tcp() : running.unix_socket();
        clients.emplace_back([channel, i, &ready] {
          const auto stub = v1::RouteLookup::NewStub(channel);
          grpc::ClientContext context;
          const auto stream = stub->BatchLookup(&context);
          v1::BatchLookupResponse response;
          EXPECT_TRUE(stream->Write({}) && stream->Read(&response));
          ready.DecrementCount();
          while (i % 2 == 0 && stream->Write({}) && stream->Read(&response)) {
          }
          context.TryCancel();
          stream->Finish();
        });
      }
      ready.Wait();
    }
    for (std::thread& client : clients) client.join();
  }
}

}  // namespace
}  // namespace planb::server
