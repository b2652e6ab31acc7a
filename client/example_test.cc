// SPDX-License-Identifier: Apache-2.0

// Examples of the client library: one for each class that looks up. README.md
// says when to use which class.

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "client/planb.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/address.h"

namespace planb::client {
namespace {

class Example : public ::testing::Test {
 protected:
  // For example "unix:///run/planb/planb.sock". The routes are, among others:
  // 2001:db8:1::/48 -> 2, 2001:db8:3::/48 -> 4, 2001:db8:3::8000:0/112 -> 777.
  const std::string target_ = testing::SharedServer();
};

// batch_lookup.h: many addresses, as they lie in packets, from one thread.
TEST_F(Example, LookUpBatches) {
  const absl::StatusOr<OpenChannel> open = ChannelsTo(target_);
  ASSERT_TRUE(open.ok()) << open.status();
  BatchLookup lookup(*open, {.max_in_flight = 4});

  const std::string packed = Address::Parse("2001:db8:1::5")->ToPacked() +
                             Address::Parse("2001:db9::")->ToPacked();
  constexpr int kBatches = 10;
  int sent = 0;
  BatchResult result;  // keeps its memory from batch to batch
  for (int received = 0; received < kBatches;) {
    if (sent < kBatches && lookup.in_flight() < 4) {
      const auto id = lookup.Send({.addresses_v6 = packed});
      ASSERT_TRUE(id.ok()) << id.status();  // the handle has ended
      ++sent;
      continue;
    }
    const absl::StatusOr<bool> more = lookup.Receive(result);
    ASSERT_TRUE(more.ok()) << more.status();           // the handle has ended
    ASSERT_TRUE(result.status.ok()) << result.status;  // this batch failed
    EXPECT_EQ(result.next_hops, (std::vector<NextHopId>{2, kNoRoute}));
    ++received;
  }
}

// batch_codec.h: upper halves need half the bytes. The answers go to the
// caller's memory; undecided addresses are looked up again in full.
TEST_F(Example, LookUpUpperHalves) {
  BatchLookup lookup(*ChannelsTo(target_), {});
  const std::vector<Address> addresses = {
      Address::Parse("2001:db8:1::5").value(),
      Address::Parse("2001:db8:3::8000:1").value()};
  std::string upper;
  for (const Address& address : addresses) {
    upper += address.ToPacked().substr(0, 8);
  }
  std::vector<NextHopId> next_hops(addresses.size());
  BatchResult result;
  ASSERT_TRUE(lookup
                  .Send({.upper_halves_v6 = upper,
                         .next_hops = absl::MakeSpan(next_hops)})
                  .ok());
  ASSERT_TRUE(lookup.Receive(result).value());
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (next_hops[i] != kUndecided) continue;
    ASSERT_TRUE(lookup.Send({.addresses_v6 = addresses[i].ToPacked()}).ok());
    ASSERT_TRUE(lookup.Receive(result).value());
    next_hops[i] = result.next_hops[0];
  }
  EXPECT_EQ(next_hops, (std::vector<NextHopId>{2, 777}));
}

// coalescing_lookup.h: one address at a time, from any number of threads.
TEST_F(Example, LookUpOneByOne) {
  const std::unique_ptr<CoalescingLookup> lookup =
      MakeCoalescingLookup(*ChannelsTo(target_), {});

  std::future<absl::StatusOr<CallAnswer>> future =
      lookup->Lookup(Address::Parse("2001:db8:3::1").value());
  const absl::StatusOr<CallAnswer> answer = future.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->next_hop, 4U);

  std::promise<NextHopId> told;  // a callback must be quick
  lookup->Lookup(Address::Parse("2001:db8:1::1").value(),
                 CoalescingLookup::Clock::now() + std::chrono::seconds(1),
                 [&told](const absl::StatusOr<CallAnswer>& called) {
                   told.set_value(called.ok() ? called->next_hop : kNoRoute);
                 });
  EXPECT_EQ(told.get_future().get(), 2U);
}

// batch_lookup.h: metrics of a BatchLookup.
TEST_F(Example, Observe) {
  struct Printer : LookupObserver {
    void OnAnswered(size_t addresses, absl::Duration latency,
                    const absl::Status& status) override {
      answered += addresses;
      std::cout << addresses << " addresses in " << latency << ", " << status
                << "\n";
    }
    size_t answered = 0;
  };
  Printer printer;  // outlives the handle
  BatchLookup lookup(*ChannelsTo(target_), {.observer = &printer});
  const std::string packed(16, '\0');
  ASSERT_TRUE(lookup.Send({.addresses_v6 = packed}).ok());
  BatchResult result;
  ASSERT_TRUE(lookup.Receive(result).value());
  EXPECT_EQ(printer.answered, 1U);
}

// batch_lookup.h: one stream, which ends when the server does.
TEST_F(Example, OneStream) {
  const auto channel = MakeChannel(target_);
  ASSERT_TRUE(channel.ok()) << channel.status();
  BatchLookup stream(*channel, {.max_in_flight = 4});
  ASSERT_TRUE(stream.Send({.addresses_v4 = {"\x0b\0\0\1", 4}}).ok());
  BatchResult result;
  ASSERT_TRUE(stream.Receive(result).value());
  EXPECT_EQ(result.next_hops, std::vector<NextHopId>{kNoRoute});
  stream.CloseSend();
  EXPECT_FALSE(stream.Receive(result).value());  // all were answered
}

// lookup_client.h: a few addresses with prefixes and next-hop objects.
TEST_F(Example, Ask) {
  const LookupClient client(*MakeChannel(target_));
  const auto answers = client.Lookup({Address::Parse("2001:db8:1::5").value()},
                                     {.want_prefix = true});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->answers[0].prefix->ToString(), "2001:db8:1::/48");
}

}  // namespace
}  // namespace planb::client
