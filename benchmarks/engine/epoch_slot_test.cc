#include "benchmarks/engine/epoch_slot.h"

#include <gtest/gtest.h>

#include <thread>

namespace planb {
namespace {

// Counts those alive, and overwrites its content when it dies.
class Tracked {
 public:
  Tracked(uint64_t number, int& alive) : number_(number), alive_(alive) {
    ++alive_;
  }
  ~Tracked() {
    number_ = kDead;
    --alive_;
  }
  uint64_t number() const { return number_; }

  static constexpr uint64_t kDead = UINT64_MAX;

 private:
  uint64_t number_;
  int& alive_;
};

std::unique_ptr<const Tracked> Make(uint64_t number, int& alive) {
  return std::make_unique<const Tracked>(number, alive);
}

TEST(EpochSlot, FreesWhatNobodyReads) {
  int alive = 0;
  {
    EpochSlot<Tracked> slot(Make(1, alive));
    EXPECT_EQ(slot.Enter().number(), 1U);
    slot.Leave();
    slot.Publish(Make(2, alive));
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(slot.current().number(), 2U);
  }
  EXPECT_EQ(alive, 0);
}

TEST(EpochSlot, KeepsWhatIsRead) {
  int alive = 0;
  {
    EpochSlot<Tracked> slot(Make(1, alive));
    const Tracked& read = slot.Enter();
    slot.Publish(Make(2, alive));
    slot.Publish(Make(3, alive));
    EXPECT_EQ(alive, 3);
    EXPECT_EQ(read.number(), 1U);
    slot.Leave();
    EXPECT_EQ(slot.Enter().number(), 3U);
    slot.Publish(Make(4, alive));  // 1 and 2 go, 3 is being read
    EXPECT_EQ(alive, 2);
    slot.Leave();
  }
  EXPECT_EQ(alive, 0);
}

// Meant for the sanitizers; without them a reader would see dead or old ones.
TEST(EpochSlot, HandsOverBetweenThreads) {
  constexpr uint64_t kLast = 20'000;
  int alive = 0;
  EpochSlot<Tracked> slot(Make(1, alive));
  std::thread reader([&slot] {
    uint64_t last = 0;
    while (last < kLast) {
      const uint64_t number = slot.Enter().number();
      slot.Leave();
      ASSERT_NE(number, Tracked::kDead);
      ASSERT_GE(number, last);
      last = number;
    }
  });
  for (uint64_t i = 2; i <= kLast; ++i) slot.Publish(Make(i, alive));
  reader.join();
  slot.Publish(Make(kLast + 1, alive));
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace planb
