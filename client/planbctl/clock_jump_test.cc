// SPDX-License-Identifier: Apache-2.0

// planbctl on a host whose wall clock is set an hour forth and back: it gives
// up nothing early, and does not sleep for that hour. (The server's own clock,
// in this process, is right.)

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/test_clock.h"
#include "client/testing/planbctl_fixture.h"

namespace planb::client {
namespace {

using ::testing::HasSubstr;
using testing::Scratch;
using testing::Slurp;
using testing::Write;

class ClockJump : public testing::PlanbctlFixture {
 protected:
  // Runs planbctl in its own time; `name` tells its files from others'. Only
  // one can begin at a time.
  std::thread Start(const std::string& name, const std::string& arguments) {
    const TestClock::Affecting affecting(clock_);
    // A wait of an hour ends as a failure, by a clock that is right.
    const std::string command = absl::StrCat(
        "timeout -s KILL 120 client/planbctl/planbctl ", arguments, " >",
        Scratch(name + ".out"), " 2>", Scratch(name + ".err"),
        " </dev/null & echo $! >", Scratch(name + ".pid"),
        "; wait $!; echo $? >", Scratch(name + ".code"));
    // Until it has this environment.
    unlink(Scratch(name + ".pid").c_str());
    std::thread run([command] { EXPECT_EQ(system(command.c_str()), 0); });
    while (Slurp(Scratch(name + ".pid")).empty()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return run;
  }

  static void ExpectSuccess(const std::string& name) {
    EXPECT_EQ(Slurp(Scratch(name + ".code")), "0\n")
        << name << ": " << Slurp(Scratch(name + ".out"))
        << Slurp(Scratch(name + ".err"));
  }

  const std::string routes_ =
      Write("routes", "10.0.0.0/8 6\n2001:db8::/32 5\n2001:db8:1::/48 7\n");
  TestClock clock_;
};

// It is set back while a client waits to try again. (BatchLookup, which opens
// channels of its own. A RouteWatcher has one, and waits as gRPC's timers do,
// which in 1.51 go by the wall clock.)
TEST_F(ClockJump, RetriesAreNotAnHourLate) {
  std::thread soak =
      Start("soak", absl::StrCat("soak --seconds=4 --timeout=100s ", routes_));
  while (server_.batches_read() < 10) absl::SleepFor(absl::Milliseconds(10));
  server_.Die();
  absl::SleepFor(absl::Milliseconds(1500));  // until pauses are long
  const uint64_t before = server_.batches_read();
  clock_.Set(-TestClock::kHour);
  server_.Restart();
  soak.join();
  ExpectSuccess("soak");
  EXPECT_THAT(Slurp(Scratch("soak.out")), HasSubstr(" batches failed: none;"));
  EXPECT_GT(server_.batches_read(), before + 10);
}

// Under way, all the time.
TEST_F(ClockJump, NothingFails) {
  // Not as often as can be: deadlines are the wall clock's until they are given
  // to the library.
  clock_.StartJumping(absl::Milliseconds(10));
  std::vector<std::string> names;
  std::vector<std::thread> runs;
  const auto run = [&](const std::string& name, const std::string& arguments) {
    runs.push_back(Start(name, arguments));
    names.push_back(name);
  };
  run("soak", absl::StrCat("soak --seconds=3 ", routes_));
  run("bench", "bench --seconds=3 --batch=64");
  run("verify", absl::StrCat("verify ", routes_));
  run("load", absl::StrCat("load ", routes_));
  for (std::thread& each : runs) each.join();
  for (const std::string& name : names) ExpectSuccess(name);
  EXPECT_GT(clock_.jumps(), 20);
}

}  // namespace
}  // namespace planb::client
