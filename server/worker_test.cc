#include "server/worker.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace planb::server {
namespace {

TEST(Worker, DoesAllInOrderBeforeItEnds) {
  std::vector<int> done;
  {
    Worker worker(1000);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(worker.Post(1, [&done, i] { done.push_back(i); }));
    }
  }
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(done, expected);
}

TEST(Worker, IsBoundedByWeight) {
  absl::Notification go;
  Worker worker(10);
  // Heavier than the bound, but alone.
  EXPECT_TRUE(worker.Post(11, [&go] { go.WaitForNotification(); }));
  EXPECT_FALSE(worker.Post(1, [] { FAIL() << "was refused"; }));
  go.Notify();
  // Its weight is given back once it is done.
  while (!worker.Post(10, [] {})) std::this_thread::yield();
}

TEST(Worker, TakesWhatFits) {
  absl::Notification go;
  Worker worker(10);
  EXPECT_TRUE(worker.Post(4, [&go] { go.WaitForNotification(); }));
  EXPECT_TRUE(worker.Post(6, [] {}));
  EXPECT_FALSE(worker.Post(1, [] { FAIL() << "was refused"; }));
  go.Notify();
}

}  // namespace
}  // namespace planb::server
