// SPDX-License-Identifier: Apache-2.0

#include "server/table/history.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

History::DeltaPtr DeltaOf(uint64_t generation, size_t routes = 1) {
  Delta delta;
  delta.generation = generation;
  delta.previous = generation - 1;
  delta.digest = std::string(16, static_cast<char>(generation));
  delta.routes.resize(routes);
  return std::make_shared<const Delta>(std::move(delta));
}

TEST(History, NextReturnsEveryGenerationInOrder) {
  History history(1 << 20, 10, "ten");
  history.Append({DeltaOf(11), DeltaOf(12)});
  history.Append({DeltaOf(13)});
  for (uint64_t g = 10; g < 13; ++g) {
    EXPECT_EQ((*history.Next(g, SteadyNow()))->generation, g + 1);
  }
  EXPECT_EQ(*history.Next(13, SteadyNow()), nullptr);
  EXPECT_EQ(history.oldest(), 10U);
  EXPECT_EQ(history.newest(), 13U);
}

// As in a log with gaps between positions.
TEST(History, GenerationsNeedNotFollowByOne) {
  const auto delta = [](uint64_t previous, uint64_t generation) {
    return std::make_shared<const Delta>(
        Delta{.generation = generation,
              .previous = previous,
              .digest = std::string(16, static_cast<char>(generation))});
  };
  History history(1 << 20, 5, "five");
  history.Append({delta(5, 9), delta(9, 40), delta(40, 41)});
  EXPECT_EQ((*history.Next(5, SteadyNow()))->generation, 9U);
  EXPECT_EQ((*history.Next(9, SteadyNow()))->generation, 40U);
  EXPECT_EQ((*history.Next(40, SteadyNow()))->generation, 41U);
  EXPECT_EQ(history.newest(), 41U);
  for (uint64_t generation = 0; generation < 50; ++generation) {
    const bool kept = generation == 5 || generation == 9 || generation == 40 ||
                      generation == 41;
    EXPECT_EQ(history.CheckStart(generation, "").ok(), kept) << generation;
    EXPECT_EQ(!history.DigestOf(generation).empty(), kept) << generation;
  }
  EXPECT_EQ(history.DigestOf(9), std::string(16, 9));
}

TEST(History, WatchersEncodeAGenerationOnce) {
  History history(1 << 20, 10, "ten");
  history.Append({DeltaOf(11), DeltaOf(12)});
  std::atomic<int> encoded = 0;
  std::array<std::shared_ptr<const History::Encoded>, 8> shared;
  std::vector<std::thread> watchers;
  for (auto& messages : shared) {
    watchers.emplace_back([&] {
      for (uint64_t at = 10; at < 12; ++at) {
        messages = history.Encode(
            **history.Next(at, SteadyNow()), [&](const Delta& delta) {
              ++encoded;
              return std::vector<std::string>(2, delta.digest);
            });
      }
    });
  }
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(encoded, 2);
  for (const auto& messages : shared) EXPECT_EQ(messages, shared[0]);
  EXPECT_EQ(*shared[0]->messages[1], std::string(16, 12));
}

TEST(History, MessagesTakeAQuarterBesideTheDeltas) {
  constexpr size_t kBytes = 1 << 20;
  History history(kBytes, 0, "");
  int encoded = 0;
  const auto encode = [&](uint64_t generation, size_t routes = 1) {
    return history.Encode(*DeltaOf(generation, routes), [&](const Delta&) {
      ++encoded;
      return std::vector<std::string>(1, std::string(kBytes / 16, 'x'));
    });
  };
  for (uint64_t generation = 1; generation <= 10; ++generation) {
    EXPECT_NE(encode(generation), nullptr);
  }
  EXPECT_EQ(encoded, 10);
  for (uint64_t generation : {8, 9, 10}) encode(generation);
  EXPECT_EQ(encoded, 10);
  // A watcher that is behind does not take the room of the latest.
  EXPECT_EQ(encode(2, kBytes / 8 / sizeof(Route)), nullptr);
  for (uint64_t generation : {8, 9, 10}) encode(generation);
  EXPECT_EQ(encode(11, kBytes / sizeof(Route)), nullptr);
  EXPECT_EQ(encoded, 10);
}

TEST(History, DropsTheOldestAndReportsIt) {
  const size_t one = DeltaOf(1, 100)->bytes();
  History history(3 * one, 0, "zero");
  for (uint64_t g = 1; g <= 10; ++g) history.Append({DeltaOf(g, 100)});
  EXPECT_EQ(history.oldest(), 7U);
  EXPECT_LE(history.bytes(), 3 * one);
  EXPECT_TRUE(history.CheckStart(7, "").ok());
  const absl::Status compacted = history.CheckStart(6, "");
  EXPECT_TRUE(absl::IsOutOfRange(compacted));
  EXPECT_EQ(ErrorReason(compacted), "HISTORY_COMPACTED");
  EXPECT_NE(compacted.message().find("oldest is 7"), std::string::npos);
  EXPECT_EQ(ErrorReason(history.Next(6, SteadyNow()).status()),
            "WATCHER_TOO_SLOW");
  EXPECT_EQ((*history.Next(7, SteadyNow()))->generation, 8U);
}

TEST(History, KeepsTheNewestDeltaHoweverLarge) {
  const size_t one = DeltaOf(1, 100)->bytes();
  History history(3 * one, 0, "zero");
  history.Append({DeltaOf(1, 100), DeltaOf(2, 10'000)});
  EXPECT_EQ(history.oldest(), 1U);
  EXPECT_EQ((*history.Next(1, SteadyNow()))->generation, 2U);
  history.Append({DeltaOf(3, 100)});
  EXPECT_EQ(history.oldest(), 2U);
  EXPECT_LE(history.bytes(), 3 * one);
}

TEST(History, AHoldKeepsWhatFollowsUpToTwiceTheBound) {
  const size_t one = DeltaOf(1, 100)->bytes();
  History history(3 * one, 0, "zero");
  for (uint64_t g = 1; g <= 5; ++g) history.Append({DeltaOf(g, 100)});
  EXPECT_EQ(history.oldest(), 2U);
  {
    const History::Hold later = [&] {
      const History::Hold hold = history.KeepWhatFollows();  // 5
      history.Append({DeltaOf(6, 100)});
      return history.KeepWhatFollows();  // 6
    }();
    // The deltas before 6 are dropped as always.
    history.Append({DeltaOf(7, 100), DeltaOf(8, 100), DeltaOf(9, 100)});
    EXPECT_EQ(history.oldest(), 6U);
    for (uint64_t g = 10; g <= 12; ++g) history.Append({DeltaOf(g, 100)});
    EXPECT_EQ(history.oldest(), 6U);
    EXPECT_EQ((*history.Next(6, SteadyNow()))->generation, 7U);
    history.Append({DeltaOf(13, 100)});
    EXPECT_EQ(history.oldest(), 7U);
    EXPECT_LE(history.bytes(), 6 * one);
  }
  EXPECT_EQ(history.oldest(), 10U);
  EXPECT_LE(history.bytes(), 3 * one);
}

TEST(History, DetectsADivergedDigest) {
  History history(1 << 20, 5, std::string(16, '\5'));
  history.Append({DeltaOf(6)});
  EXPECT_TRUE(history.CheckStart(5, std::string(16, '\5')).ok());
  EXPECT_TRUE(history.CheckStart(6, std::string(16, '\6')).ok());
  EXPECT_EQ(ErrorReason(history.CheckStart(6, std::string(16, '\5'))),
            "HISTORY_DIVERGED");
  EXPECT_EQ(ErrorReason(history.CheckStart(7, "")), "HISTORY_COMPACTED");
}

TEST(History, NextWaitsForADeltaOrClose) {
  History history(1 << 20, 0, "");
  std::thread writer([&] {
    absl::SleepFor(absl::Milliseconds(5));
    history.Append({DeltaOf(1)});
    absl::SleepFor(absl::Milliseconds(5));
    history.Close(DrainingError());
  });
  const SteadyInstant late = SteadyAfter(absl::Minutes(1));
  EXPECT_EQ((*history.Next(0, late))->generation, 1U);
  EXPECT_EQ(ErrorReason(history.Next(1, late).status()), "DRAINING");
  writer.join();
  // Deltas from before Close are still returned.
  EXPECT_EQ((*history.Next(0, late))->generation, 1U);
}

}  // namespace
}  // namespace planb::server
