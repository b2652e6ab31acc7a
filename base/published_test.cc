// SPDX-License-Identifier: Apache-2.0

// What readers see, and when a replaced object is freed. A second program, with
// PLANB_REFUSE_MEMBARRIER, tests the same where the kernel refuses membarrier.

#include "base/published.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/internal/raw_logging.h"

namespace planb {
namespace {

// From now on the kernel refuses membarrier to this process.
#if PLANB_REFUSE_MEMBARRIER
// That is before the first initializer of a variable, which registers for it.
[[gnu::constructor(101)]]
#endif
void RefuseMembarrier() {
  std::array<sock_filter, 4> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {.len = code.size(), .filter = code.data()};
  ABSL_RAW_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
                 "the kernel takes no filter");
}

// Threads may then have slots of their own.
bool HasMembarrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool HasOwnSlots() { return slot_number < kOwnSlots; }

// Two words that must be equal, and a count of live objects.
struct Pair {
  explicit Pair(int value) : a(value), b(value) { ++live; }
  ~Pair() {
    a = -1;
    --live;
  }
  int a;
  int b;
  static std::atomic<int> live;
};
std::atomic<int> Pair::live{0};

size_t One(const Pair&) { return 1; }

TEST(Published, ReadsTheLatest) {
  Published<Pair> published(std::make_unique<Pair>(1));
  EXPECT_EQ(published.Read()->a, 1);
  published.Publish(std::make_unique<Pair>(2));
  EXPECT_EQ(published.Read()->a, 2);
  EXPECT_EQ(Pair::live, 1);
}

TEST(Published, KeepsAnObjectThatAReaderHolds) {
  Published<Pair> published(std::make_unique<Pair>(1));
  {
    const auto old = published.Read();
    published.Publish(std::make_unique<Pair>(2));
    published.Publish(std::make_unique<Pair>(3));
    EXPECT_EQ(old->a, 1);
    EXPECT_EQ(published.Reclaim(One), 1U);  // 2 had no reader
    EXPECT_EQ(Pair::live, 2);
  }
  EXPECT_EQ(published.Reclaim(One), 0U);
  EXPECT_EQ(Pair::live, 1);
}

TEST(Published, MovedReaderStillHolds) {
  Published<Pair> published(std::make_unique<Pair>(1));
  auto first = published.Read();
  const auto second = std::move(first);
  published.Publish(std::make_unique<Pair>(2));
  EXPECT_EQ(second->a, 1);
}

TEST(Published, HasRoomForAnyNumberOfReaders) {
  constexpr int kReaders = 300;
  Published<Pair> published(std::make_unique<Pair>(1));
  {
    std::vector<Published<Pair>::Reader> readers;
    for (int i = 0; i < kReaders; ++i) {
      readers.push_back(published.Read());
      published.Publish(std::make_unique<Pair>(i + 2));
    }
    EXPECT_EQ(published.Reclaim(One), readers.size());
    for (int i = 0; i < kReaders; ++i) {
      EXPECT_EQ(readers[static_cast<size_t>(i)]->a, i + 1);
    }
  }
  EXPECT_EQ(published.Reclaim(One), 0U);
}

TEST(Published, GivesAThreadSlotsOfItsOwnUntilItEnds) {
  Published<Pair> published(std::make_unique<Pair>(1));
  for (size_t i = 0; i < 3 * kOwnSlots; ++i) {
    std::thread([&] {
      EXPECT_EQ(published.Read()->a, 1);
      EXPECT_EQ(HasOwnSlots(), HasMembarrier());
    }).join();
  }
}

TEST(Published, HasRoomForAnyNumberOfThreads) {
  constexpr int kThreads = 2 * kOwnSlots;
  Published<Pair> published(std::make_unique<Pair>(1));
  std::latch read(kThreads), replaced(1);
  std::vector<std::thread> readers;
  std::atomic<size_t> owners = 0;
  for (int i = 0; i < kThreads; ++i) {
    readers.emplace_back([&] {
      const auto first = published.Read();
      const auto second = published.Read();
      if (HasOwnSlots()) ++owners;
      read.count_down();
      replaced.wait();
      EXPECT_EQ(first->a, 1);
      EXPECT_EQ(second->a, 1);
      EXPECT_EQ(published.Read()->a, 2);
    });
  }
  read.wait();
  published.Publish(std::make_unique<Pair>(2));
  EXPECT_EQ(published.Reclaim(One), 1U);
  replaced.count_down();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(published.Reclaim(One), 0U);
  // This thread may have slots too.
  EXPECT_GE(owners, HasMembarrier() ? kOwnSlots - 1 : 0);
  EXPECT_LE(owners, HasMembarrier() ? kOwnSlots : 0);
}

TEST(Published, AReaderMayOutliveItsThread) {
  Published<Pair> published(std::make_unique<Pair>(1));
  std::optional<Published<Pair>::Reader> old;
  std::thread([&] { old.emplace(published.Read()); }).join();
  // Has the number of the thread that ended, and so its slots.
  std::thread([&] {
    EXPECT_EQ(published.Read()->a, 1);
    published.Publish(std::make_unique<Pair>(2));
    EXPECT_EQ(published.Read()->a, 2);
  }).join();
  EXPECT_EQ((*old)->a, 1);
  EXPECT_EQ(published.Reclaim(One), 1U);
  old.reset();
  EXPECT_EQ(published.Reclaim(One), 0U);
}

// No machine shows each time what a missing fence does. This shows the fence.
TEST(PublishedDeathTest, FreesNothingWithoutAFence) {
  if (!HasMembarrier()) GTEST_SKIP() << "no slots of threads, no fence";
  Published<Pair> published(std::make_unique<Pair>(1));
  EXPECT_DEATH(
      {
        RefuseMembarrier();
        published.Publish(std::make_unique<Pair>(2));
      },
      "membarrier was registered and is refused now");
}

// What a thread's own destructors read comes after its slots were given back.
struct ReadsLast {
  ~ReadsLast() {
    if (published == nullptr) return;
    EXPECT_EQ(published->Read()->a, 1);
    EXPECT_FALSE(HasOwnSlots());
  }
  const Published<Pair>* published = nullptr;
};
thread_local ReadsLast reads_last;

TEST(Published, IsReadByAThreadsLastDestructor) {
  Published<Pair> published(std::make_unique<Pair>(1));
  std::thread([&] {
    reads_last.published = &published;  // made before the slots are taken
    EXPECT_EQ(published.Read()->a, 1);
  }).join();
  EXPECT_EQ(published.Reclaim(One), 0U);
}

// TSan and ASan check the argument in published.h with this test.
TEST(Published, ReadersNeverSeeAFreedOrAnOlderObject) {
  Published<Pair> published(std::make_unique<Pair>(0));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      int last = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        const auto pair = published.Read();
        const int a = pair->a;
        ASSERT_EQ(a, pair->b);
        ASSERT_GE(a, last);
        last = a;
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int i = 1; i < 20000 || reads.load() < 10000; ++i) {
    published.Publish(std::make_unique<Pair>(i));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(published.Reclaim(One), 0U);
  EXPECT_EQ(Pair::live, 1);
}

// Threads that read come and go, and so do the published objects that they
// read, each with a writer of its own.
TEST(Published, ComesAndGoesAsItsReadersDo) {
  constexpr int kTurns = 100;
  const auto read = [](const std::vector<std::shared_ptr<Published<Pair>>>& all,
                       const std::atomic<bool>& stop) {
    std::vector<int> last(all.size());
    while (!stop.load(std::memory_order_relaxed)) {
      for (size_t i = 0; i < all.size(); ++i) {
        const auto pair = all[i]->Read();
        const auto again = all[i]->Read();
        ASSERT_EQ(pair->a, pair->b);
        ASSERT_EQ(again->a, again->b);
        ASSERT_GE(pair->a, last[i]);
        ASSERT_GE(again->a, pair->a);
        last[i] = again->a;
      }
    }
  };
  const auto kept =
      std::make_shared<Published<Pair>>(std::make_unique<Pair>(0));
  std::atomic<bool> end{false}, stop{false};
  std::thread longest(read, std::vector{kept}, std::cref(end));
  for (int turn = 1; turn <= kTurns; ++turn) {
    stop = false;
    std::vector all = {
        kept, std::make_shared<Published<Pair>>(std::make_unique<Pair>(0))};
    std::thread first(read, all, std::cref(stop));
    std::thread second(read, all, std::cref(stop));
    for (int i = 1; i <= 50; ++i) {
      for (const auto& each : all) {
        each->Publish(std::make_unique<Pair>(turn * 50 + i));
      }
    }
    stop = true;
    first.join();
    all.clear();  // the second thread may have the last reference
    second.join();
  }
  end = true;
  longest.join();
  EXPECT_EQ(kept->Reclaim(One), 0U);
  EXPECT_EQ(Pair::live, 1);
}

}  // namespace
}  // namespace planb
