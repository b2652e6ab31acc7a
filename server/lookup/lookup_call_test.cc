// SPDX-License-Identifier: Apache-2.0

// Answers of Lookup without the network, mostly of next-hop groups.

#include "server/lookup/lookup_call.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "server/base/error.h"
#include "server/lookup/lookup_service.h"
#include "server/testing/make_snapshot.h"

namespace planb::server {
namespace {

constexpr NextHopId kGroup = 1000;

std::unique_ptr<const Snapshot> TableWithGroup() {
  std::vector<NextHop> next_hops;
  for (const NextHopId id : {1u, 2u, 5u}) {
    next_hops.push_back({.id = id, .label = "object"});
  }
  return MakeSnapshot(
      7,
      {{*Prefix::Parse("10.0.0.0/8"), kGroup},
       {*Prefix::Parse("2001:db8::/32"), 5}},
      next_hops,
      {{.id = kGroup, .members = {{1, 1}, {2, 1}, {3, 1}}, .label = ""}});
}

v1::LookupRequest ThreeAddresses() {
  v1::LookupRequest request;
  for (const char* text : {"10.1.1.1", "2001:db8::1", "9.9.9.9"}) {
    request.add_addresses()->set_text(text);
  }
  return request;
}

v1::LookupResponse Answer(const Snapshot& snapshot, v1::LookupRequest request) {
  const auto addresses = TakeAddresses(request);
  EXPECT_TRUE(addresses.ok()) << addresses.status();
  v1::LookupResponse response;
  size_t attributes = 0;
  EXPECT_EQ(*AnswerLookup(snapshot, *AvailableKernels().front(), *addresses,
                          request, response, addresses->size(), attributes),
            1u);
  EXPECT_EQ(response.generation(), 7u);
  EXPECT_EQ(response.results_size(), 3);
  return response;
}

TEST(LookupAnswer, AttributesOfOneReplyAreBounded) {
  const auto snapshot = MakeSnapshot(
      7, {{*Prefix::Parse("::/0"), 5}},
      {{.id = 5, .attributes = Attributes(std::string(4096, 'a'))}});
  v1::LookupRequest request;
  request.set_want_next_hop(true);
  for (const size_t count : {size_t{256}, size_t{257}}) {
    const std::vector<Address> addresses(count, Address::V6(1));
    v1::LookupResponse response;
    size_t attributes = 0;
    const auto misses =
        AnswerLookup(*snapshot, *AvailableKernels().front(), addresses, request,
                     response, count, attributes);
    EXPECT_EQ(misses.ok(), count == 256) << misses.status();
    EXPECT_EQ(ErrorReason(misses.status()),
              count == 256 ? "" : "BATCH_TOO_LARGE");
  }
}

TEST(LookupAnswer, HashSelectsMember) {
  const auto snapshot = TableWithGroup();
  v1::LookupRequest request = ThreeAddresses();
  request.set_want_next_hop(true);
  request.set_want_prefix(true);
  std::set<NextHopId> taken;
  for (uint32_t flow = 0; flow < 50; ++flow) {
    request.clear_flow_hashes();
    for (uint32_t i = 0; i < 3; ++i) request.add_flow_hashes(flow * 3 + i);
    const v1::LookupResponse response = Answer(*snapshot, request);
    const v1::LookupResult& grouped = response.results(0);
    EXPECT_EQ(grouped.next_hop_id(), kGroup);
    EXPECT_EQ(grouped.member_id(), snapshot->groups().Choose(kGroup, flow * 3));
    EXPECT_EQ(grouped.prefix().length(), 8u);
    // The member's object. Next hop 3 has none.
    EXPECT_EQ(grouped.next_hop().id(),
              grouped.member_id() == 3 ? 0 : grouped.member_id());
    taken.insert(grouped.member_id());
    EXPECT_EQ(response.results(1).next_hop_id(), 5u);
    EXPECT_EQ(response.results(1).member_id(), 0u);
    EXPECT_EQ(response.results(1).next_hop().id(), 5u);
    EXPECT_EQ(response.results(2).next_hop_id(), 0u);
    EXPECT_EQ(response.results(2).member_id(), 0u);
  }
  EXPECT_EQ(taken, (std::set<NextHopId>{1, 2, 3}));
}

TEST(LookupAnswer, AnswersGroupWithoutHash) {
  const auto snapshot = TableWithGroup();
  v1::LookupRequest request = ThreeAddresses();
  request.set_want_next_hop(true);
  const v1::LookupResponse response = Answer(*snapshot, request);
  EXPECT_EQ(response.results(0).next_hop_id(), kGroup);
  EXPECT_EQ(response.results(0).member_id(), 0u);
  EXPECT_FALSE(response.results(0).has_next_hop());
}

// Its callback may be on another thread when the queues end.
TEST(LookupCall, ThatWaitsIsFreedEvenAfterItsQueueHasEnded) {
  Tables tables({});
  LookupMetrics metrics;
  SlowBatchLog slow_batches(absl::ZeroDuration());
  LookupContext context = {.tables = tables,
                           .kernel = *AvailableKernels().front(),
                           .limits = {.max_waiting_bytes = 1},
                           .metrics = metrics,
                           .slow_batches = slow_batches};
  LookupService service(context);
  grpc::ServerBuilder builder;
  service.Register({.count = 1}, builder);
  const auto server = builder.BuildAndStart();
  ASSERT_TRUE(service.Start().ok());
  std::thread caller([channel = server->InProcessChannel({})] {
    v1::LookupRequest request = ThreeAddresses();
    request.set_min_generation(1);
    const auto stub = v1::RouteLookup::NewStub(channel);
    grpc::Status status;
    do {  // the test looks whether there is room, and takes it meanwhile
      grpc::ClientContext call;
      v1::LookupResponse response;
      status = stub->Lookup(&call, request, &response);
    } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_FALSE(status.ok());
  });
  // It has taken what may wait, and there is room again once it is freed.
  const auto waits = [&] { return !context.waiting.Take(1).granted(); };
  while (!waits()) absl::SleepFor(absl::Milliseconds(1));
  server->Shutdown(std::chrono::system_clock::now());
  service.Shutdown();
  caller.join();
  EXPECT_TRUE(waits());
  tables.Drain(SteadyNow());
  EXPECT_FALSE(waits());
}

TEST(LookupAnswer, RefusesHashesOfWrongLength) {
  for (int hashes = 0; hashes <= 4; ++hashes) {
    v1::LookupRequest request = ThreeAddresses();
    for (int i = 0; i < hashes; ++i) request.add_flow_hashes(1);
    const absl::Status status = TakeAddresses(request).status();
    if (hashes == 0 || hashes == 3) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ErrorReason(status), "FLOW_HASHES_LENGTH");
    EXPECT_EQ(ErrorField(status), "flow_hashes");
  }
}

}  // namespace
}  // namespace planb::server
