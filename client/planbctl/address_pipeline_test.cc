// SPDX-License-Identifier: Apache-2.0

// Answers come in the order of the addresses, with families mixed and
// batches of any size.

#include "client/planbctl/address_pipeline.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "absl/time/clock.h"
#include "client/planbctl/session.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

testing::FakeServerOptions TwoRoutes() {
  return {.routes = {{*Prefix::Parse("2001:db8::/32"), 5},
                     {*Prefix::Parse("2001:db8:8000::/33"), 8},
                     {*Prefix::Parse("10.0.0.0/8"), 6}}};
}

// A mix of routed and unrouted addresses of both families.
std::vector<Address> Mixed(size_t count) {
  std::mt19937 random(7);
  std::vector<Address> addresses;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    switch (random() % 3) {
      case 0:
        addresses.push_back(Address::V4(0x0a000000U | bits >> 8));
        break;
      case 1:
        addresses.push_back(Address::V4(0x0b000000U | bits >> 8));
        break;
      default:
        addresses.push_back(
            Address::V6(absl::MakeUint128(0x20010db800000000ULL | bits, bits)));
    }
  }
  return addresses;
}

TEST(AddressPipeline, AnswersEveryAddressInOrder) {
  testing::FakeServer server(TwoRoutes());
  const testing::FakeTable table = server.table();
  const std::vector<Address> addresses = Mixed(1000);
  for (const size_t batch : {0, 1, 7, 64, 1000, 5000}) {
    for (const size_t depth : {0, 1, 3}) {
      std::vector<AddressAnswer> answers;
      AddressPipeline pipeline(
          *ChannelsTo(server.target()),
          {.batch = batch, .depth = depth, .want_prefixes = true},
          [&](const AddressAnswer& answer) { answers.push_back(answer); });
      for (const Address& address : addresses) {
        ASSERT_TRUE(pipeline.Add(address).ok());
        if (batch <= 1 && depth <= 1) {
          ASSERT_EQ(answers.back().address, address);
        }
      }
      ASSERT_TRUE(pipeline.Finish().ok());
      ASSERT_EQ(answers.size(), addresses.size());
      for (size_t i = 0; i < addresses.size(); ++i) {
        const auto route = table.Lookup(addresses[i]);
        ASSERT_EQ(answers[i].address, addresses[i]);
        ASSERT_EQ(answers[i].generation, 1U);
        if (route.has_value()) {
          ASSERT_EQ(answers[i].next_hop, route->next_hop);
          ASSERT_EQ(answers[i].prefix, route->prefix);
        } else {
          ASSERT_EQ(answers[i].next_hop, kNoRoute);
          ASSERT_FALSE(answers[i].prefix.has_value());
        }
      }
    }
  }
}

TEST(AddressPipeline, AFlowTakesMembersOfGroups) {
  testing::FakeServer server(
      {.routes = {{*Prefix::Parse("10.0.0.0/8"), testing::kFirstGroup}}});
  for (const std::optional<uint32_t> flow :
       {std::optional<uint32_t>(), std::optional<uint32_t>(41)}) {
    std::vector<NextHopId> answers;
    AddressPipeline pipeline(*ChannelsTo(server.target()),
                             {.batch = 2, .flow_hash = flow},
                             [&](const AddressAnswer& answer) {
                               answers.push_back(answer.next_hop);
                             });
    for (const char* text : {"10.0.0.1", "::1", "10.0.0.2"}) {
      ASSERT_TRUE(pipeline.Add(*Address::Parse(text)).ok());
    }
    ASSERT_TRUE(pipeline.Finish().ok());
    const NextHopId answer = flow.has_value() ? 42 : testing::kFirstGroup;
    EXPECT_EQ(answers, (std::vector<NextHopId>{answer, kNoRoute, answer}));
  }
}

TEST(AddressPipeline, NothingAskedIsNoError) {
  testing::FakeServer server(TwoRoutes());
  AddressPipeline pipeline(*ChannelsTo(server.target()), {},
                           [](const AddressAnswer&) {});
  EXPECT_TRUE(pipeline.Finish().ok());
}

TEST(AddressPipeline, AFailedBatchIsAnError) {
  testing::FakeServer server(TwoRoutes());
  AddressPipeline pipeline(*ChannelsTo(server.target()), {.table = "none"},
                           [](const AddressAnswer&) { FAIL(); });
  ASSERT_TRUE(pipeline.Add(*Address::Parse("::1")).ok());
  EXPECT_EQ(ErrorReason(pipeline.Finish()), "TABLE_NOT_FOUND");
}

TEST(AddressPipeline, BrokenStreamsAreReplaced) {
  testing::FakeServer server(TwoRoutes());
  server.EndStreams(3, testing::MakeError(grpc::StatusCode::UNAVAILABLE,
                                          "DRAINING", "going down"));
  const std::vector<Address> addresses = Mixed(100);
  std::vector<Address> answered;
  AddressPipeline pipeline(
      *ChannelsTo(server.target()), {.batch = 10},
      [&](const AddressAnswer& answer) { answered.push_back(answer.address); });
  for (const Address& address : addresses) {
    ASSERT_TRUE(pipeline.Add(address).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(answered, addresses);
  EXPECT_EQ(server.streams_opened(), 4U);
}

TEST(AddressPipeline, ADyingServerIsAnError) {
  testing::FakeServer server(TwoRoutes());
  server.EndStreams(3, testing::MakeError(grpc::StatusCode::UNAVAILABLE,
                                          "DRAINING", "going down"));
  size_t answered = 0;
  AddressPipeline pipeline(*ChannelsTo(server.target()),
                           {.batch = 10, .give_up_after = absl::ZeroDuration()},
                           [&](const AddressAnswer&) { ++answered; });
  absl::Status status;
  for (const Address& address : Mixed(100)) {
    status = pipeline.Add(address);
    if (!status.ok()) break;
  }
  if (status.ok()) status = pipeline.Finish();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(answered, 30U);
}

// The server's own words on its health, and errors where it has none.

using grpc::health::v1::HealthCheckResponse;

TEST(CheckHealth, ServingAndNot) {
  testing::FakeServer server;
  const auto channel = server.Channel();
  const auto check = [&](const std::string& service) {
    return CheckHealth(channel, service, absl::Now() + absl::Seconds(10));
  };
  EXPECT_EQ(*check(""), HealthCheckResponse::SERVING);
  server.SetServing(false);
  EXPECT_EQ(*check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(absl::IsNotFound(check("no.such.Service").status()));
  server.Die();
  EXPECT_TRUE(absl::IsUnavailable(check("").status()));
}

}  // namespace

}  // namespace planb::client
