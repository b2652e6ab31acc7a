// SPDX-License-Identifier: Apache-2.0

// Sets the wall clock of the processes that a test starts.

#ifndef PLANB_BASE_TESTING_TEST_CLOCK_H_
#define PLANB_BASE_TESTING_TEST_CLOCK_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/server_process.h"

namespace planb {

// Does not change the clock of the test itself. The test needs
// //base/testing:libjumping_clock.so in its data. Not thread-safe.
class TestClock {
 public:
  static constexpr absl::Duration kHour = absl::Hours(1);

  TestClock() : path_(TempPath("clock")) {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(int64_t)), 0);
    offset_ = static_cast<std::atomic<int64_t>*>(mmap(
        nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    EXPECT_NE(offset_, MAP_FAILED);
    close(file);
  }
  ~TestClock() {
    StopJumping();
    munmap(offset_, sizeof(int64_t));
    unlink(path_.c_str());
  }

  // Processes started during the life of this object have the clock.
  class Affecting {
   public:
    explicit Affecting(const TestClock& clock) {
      const char* const asan = std::getenv("ASAN_OPTIONS");
      asan_ = asan == nullptr ? "" : asan;
      const std::string library =
          std::filesystem::absolute("base/testing/libjumping_clock.so");
      EXPECT_TRUE(std::filesystem::exists(library));
      setenv("PLANB_TEST_CLOCK", clock.path_.c_str(), 1);
      setenv("LD_PRELOAD", library.c_str(), 1);
      // ASan demands to be the first library. This one does not allocate.
      setenv("ASAN_OPTIONS",
             absl::StrCat(asan_, ":verify_asan_link_order=0").c_str(), 1);
    }
    ~Affecting() {
      unsetenv("PLANB_TEST_CLOCK");
      unsetenv("LD_PRELOAD");
      setenv("ASAN_OPTIONS", asan_.c_str(), 1);
    }
    Affecting(const Affecting&) = delete;
    Affecting& operator=(const Affecting&) = delete;

   private:
    std::string asan_;
  };

  // Does the same for one process, which has this in its environment.
  std::vector<std::string> environment() const {
    const char* const asan = std::getenv("ASAN_OPTIONS");
    return {absl::StrCat("PLANB_TEST_CLOCK=", path_),
            absl::StrCat("LD_PRELOAD=", std::filesystem::absolute(
                                            "base/testing/libjumping_clock.so")
                                            .string()),
            absl::StrCat("ASAN_OPTIONS=", asan == nullptr ? "" : asan,
                         ":verify_asan_link_order=0")};
  }

  void Set(absl::Duration offset) {
    offset_->store(absl::ToInt64Nanoseconds(offset));
  }

  // Jumps an hour ahead and back until StopJumping, mostly after each `pause`.
  // The default pause is shorter than the time between two readings.
  void StartJumping(absl::Duration pause = absl::Microseconds(50)) {
    jumper_ = std::thread([this, pause] {
      for (int i = 0; !stop_.load(); ++i) {
        Set((i % 3 - 1) * kHour);
        absl::SleepFor(i % 1000 < 990 ? pause : absl::Milliseconds(7 + i % 20));
        ++jumps_;
      }
    });
  }
  void StopJumping() {
    stop_.store(true);
    if (jumper_.joinable()) jumper_.join();
  }
  int jumps() const { return jumps_.load(); }

 private:
  const std::string path_;
  std::atomic<int64_t>* offset_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> jumps_ = 0;
  std::thread jumper_;
};

}  // namespace planb

#endif  // PLANB_BASE_TESTING_TEST_CLOCK_H_
