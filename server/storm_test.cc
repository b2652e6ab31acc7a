// SPDX-License-Identifier: Apache-2.0

// Lookups at a real server while its table is rebuilt as fast as possible.
// Every answer is compared with the one generation that its reply names.
// PLANB_STORM_SECONDS says how long that goes on (1); test-long has 120.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/server_process.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {
namespace {

// The table at each generation: 32 prefixes of /5 in each family, and in each
// of those of IPv6 a /65 that is withdrawn in every other generation.
constexpr uint32_t kPrefixes = 32;
constexpr uint32_t kLongHop = 1'000'000'000;

bool HasLong(uint64_t generation, uint32_t i) {
  return (generation + i) % 2 == 0;
}
bool HasShort(uint64_t generation, uint32_t i) {
  return (generation + i) % 5 != 0;
}
uint32_t ShortHop(uint64_t generation, uint32_t i) {
  return HasShort(generation, i) ? static_cast<uint32_t>(generation) : kNoRoute;
}
// The next hop of an address in the /65.
uint32_t LongHop(uint64_t generation, uint32_t i) {
  return HasLong(generation, i) ? kLongHop + static_cast<uint32_t>(generation)
                                : ShortHop(generation, i);
}

Address ShortV6(uint32_t i) { return Address::V6(absl::uint128(i) << 123); }
// The /65 is the second half of the prefix's first /64.
Address LongV6(uint32_t i) {
  return Address::V6(absl::uint128(i) << 123 | absl::uint128(1) << 63);
}

void Add(const Address& address, int length, bool present, uint32_t next_hop,
         v1::UpdateRoutesRequest& request) {
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(present ? v1::RouteUpdate::OP_UPSERT
                        : v1::RouteUpdate::OP_DELETE);
  update.mutable_prefix()->set_address(address.ToPacked());
  update.mutable_prefix()->set_length(static_cast<uint32_t>(length));
  if (present) update.set_next_hop_id(next_hop);
}

// Turns the table of any generation into that of `generation`.
v1::UpdateRoutesRequest UpdateTo(uint64_t generation) {
  v1::UpdateRoutesRequest request;
  const auto hop = static_cast<uint32_t>(generation);
  for (uint32_t i = 0; i < kPrefixes; ++i) {
    const bool present = HasShort(generation, i);
    Add(ShortV6(i), 5, present, hop, request);
    Add(Address::V4(i << 27), 5, present, hop, request);
    Add(LongV6(i), 65, HasLong(generation, i), kLongHop + hop, request);
  }
  return request;
}

// `count` addresses of each form: IPv6 inside and outside of the /65s, IPv4,
// and upper halves of both kinds.
v1::BatchLookupRequest Mixed(uint32_t count) {
  v1::BatchLookupRequest request;
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = n % kPrefixes;
    *request.mutable_addresses_v6() +=
        (n / kPrefixes % 2 == 0 ? ShortV6(i) : LongV6(i)).ToPacked();
    *request.mutable_addresses_v4() += Address::V4(i << 27 | n).ToPacked();
    const Address elsewhere =
        Address::V6(absl::uint128(i) << 123 | absl::uint128(n + 1) << 64);
    *request.mutable_upper_halves_v6() +=
        (n / kPrefixes % 2 == 0 ? elsewhere : ShortV6(i))
            .ToPacked()
            .substr(0, 8);
  }
  return request;
}

// How many of a reply's answers are not those of its generation.
int Wrong(uint32_t count, const v1::BatchLookupResponse& reply) {
  if (reply.next_hops().size() != 3 * size_t{count} * 4) return -1;
  const uint64_t g = reply.generation();
  const auto hop = [&](uint32_t at) {
    uint32_t id;
    std::memcpy(&id, reply.next_hops().data() + 4 * size_t{at}, sizeof(id));
    return id;
  };
  int wrong = 0;
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = n % kPrefixes;
    const bool first = n / kPrefixes % 2 == 0;
    // Before the first update the table is empty.
    const uint32_t plain = g == 0 ? kNoRoute : ShortHop(g, i);
    const uint32_t within = g == 0 ? kNoRoute : LongHop(g, i);
    wrong += hop(n) != (first ? plain : within);
    wrong += hop(count + n) != plain;
    const bool divided = g != 0 && HasLong(g, i);
    wrong += hop(2 * count + n) != (first || !divided ? plain : kUndecided);
  }
  return wrong;
}

class Storm : public testing::Test {
 protected:
  Storm()
      : socket_(TempPath("storm.sock")),
        server_({absl::StrCat("--listen=unix://", socket_),
                 "--metrics_address=", "--max_pending_updates=64"}) {
    duration_ = absl::Seconds(FromEnvironment("PLANB_STORM_SECONDS", 1));
  }

  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("unix://", socket_),
                                     grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  // Keeps two batches of `count` in flight and checks each reply. Every fourth
  // batch asks for the generation accepted last, every sixteenth for one that
  // is never reached.
  void Read(uint32_t count) {
    const auto stub = v1::RouteLookup::NewStub(Connect());
    grpc::ClientContext context;
    const auto stream = stub->BatchLookup(&context);
    v1::BatchLookupRequest request = Mixed(count);
    const uint64_t never = uint64_t{1} << 60;
    uint64_t sent = 0, received = 0, last = 0;
    std::vector<uint64_t> wanted;
    while (!stop_.load() || received < sent) {
      if (!stop_.load() && sent < received + 2) {
        request.set_request_id(sent);
        request.set_min_generation(sent % 16 == 7  ? never
                                   : sent % 4 == 3 ? accepted_.load()
                                                   : 0);
        request.set_max_wait_ms(sent % 16 == 7 ? 1 : 10'000);
        wanted.push_back(request.min_generation());
        ++sent;
        ASSERT_TRUE(stream->Write(request));
        continue;
      }
      v1::BatchLookupResponse reply;
      ASSERT_TRUE(stream->Read(&reply));
      ASSERT_EQ(reply.request_id(), received);
      ASSERT_GE(reply.generation(), last);
      last = reply.generation();
      const uint64_t asked = wanted[received++];
      if (asked == never) {
        ASSERT_EQ(reply.error().reason(), "GENERATION_NOT_VISIBLE");
        continue;
      }
      ASSERT_FALSE(reply.has_error()) << reply.error().ShortDebugString();
      ASSERT_GE(reply.generation(), asked);
      ASSERT_EQ(Wrong(count, reply), 0) << "generation " << reply.generation();
      checked_.fetch_add(1);
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }

  // Writes generations 1, 2, ... as fast as they are accepted: until `end`, and
  // until there are enough generations and checked batches.
  void Write(absl::Time end) {
    const auto stub = v1::RouteTable::NewStub(Connect());
    constexpr uint64_t kEnough = 10;
    const auto goes_on = [&] {
      return absl::Now() < end || accepted_ <= kEnough || checked_ <= kEnough;
    };
    for (uint64_t g = 1; goes_on() && !HasFatalFailure();) {
      v1::UpdateRoutesRequest request = UpdateTo(g);
      request.set_ack(g % 64 == 0 ? v1::ACK_VISIBLE : v1::ACK_ACCEPTED);
      grpc::ClientContext context;
      v1::UpdateRoutesResponse response;
      const grpc::Status status =
          stub->UpdateRoutes(&context, request, &response);
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
      ASSERT_TRUE(status.ok()) << status.error_message();
      ASSERT_EQ(response.generation(), g);
      accepted_ = g++;
    }
  }

  const std::string socket_;
  ServerProcess server_;
  absl::Duration duration_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> accepted_{0};
  std::atomic<uint64_t> checked_{0};
};

TEST_F(Storm, NoBatchMixesGenerations) {
  ASSERT_TRUE(server_.AwaitServing());
  std::vector<std::thread> readers;
  for (const uint32_t count : {1u, 16u, 300u, 2000u}) {
    readers.emplace_back([this, count] { Read(count); });
  }
  Write(absl::Now() + duration_);
  stop_ = true;
  for (std::thread& reader : readers) reader.join();
  std::cout << accepted_ << " generations, " << checked_
            << " batches, all of one generation each\n";
  server_.Kill(SIGTERM);
  EXPECT_EQ(server_.Wait(), 0);
}

}  // namespace
}  // namespace planb::server
