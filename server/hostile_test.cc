// SPDX-License-Identifier: Apache-2.0

// Each attack against a real server. During every attack the server stays up,
// keeps the stream of an honest client open and answers it correctly; after the
// attack it holds no more files than before. During the attacks that the server
// stops by itself it also serves a new client and stays within its memory.
//
// benchmarks/serving/hostile.sh measures the throughput that is left. A test on
// a busy machine cannot.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/testing/attacked_server.h"
#include "server/testing/hostile_attacks.h"

namespace planb::server {

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

namespace {

// What an attack may add to the server's memory: --memory_quota_bytes, which
// gRPC accounts, and a margin for the rest. ASan keeps freed memory.
constexpr int64_t kQuotaMib = 256;
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMarginMib = 2048;
#else
constexpr int64_t kMarginMib = 128;
#endif

// server/testing/hostile_attacker.cc as a child process, which attacks from its
// construction until Stop() or its destruction. Not thread-safe.
class AttackerProcess {
 public:
  // `program` is the path of the attacker.
  AttackerProcess(std::string program, std::string target, std::string attack,
                  uint64_t seed) {
    if (pipe2(output_, O_CLOEXEC) != 0) return;
    std::string seed_text = absl::StrCat(seed), full_speed = "0";
    char* const argv[] = {program.data(),   target.data(),     attack.data(),
                          seed_text.data(), full_speed.data(), nullptr};
    pid_ = fork();
    if (pid_ != 0) {
      close(std::exchange(output_[1], -1));
      return;
    }
    dup2(output_[1], STDOUT_FILENO);
    execv(argv[0], argv);
    _exit(127);
  }
  ~AttackerProcess() {
    Stop();
    close(output_[0]);
  }
  AttackerProcess(const AttackerProcess&) = delete;
  AttackerProcess& operator=(const AttackerProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Waits for the first step. False if the process ends before.
  bool AwaitBegun() const {
    char byte = 0;
    while (read(output_[0], &byte, 1) == 1) {
      if (byte == '\n') return true;
    }
    return false;
  }

  // Ends the attack and returns the number of its steps; 0 if it did not run or
  // was stopped before. REQUIRES: AwaitBegun() was called.
  uint64_t Stop() {
    const pid_t pid = std::exchange(pid_, -1);
    if (pid <= 0) return 0;
    kill(pid, SIGTERM);
    int status = 0;
    waitpid(pid, &status, 0);
    char text[32] = {};
    uint64_t steps = 0;
    if (status != 0 || read(output_[0], text, sizeof(text) - 1) <= 0) return 0;
    return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &steps) ? steps
                                                                      : 0;
  }

 private:
  int output_[2] = {-1, -1};
  pid_t pid_ = -1;
};

class Hostile : public testing::TestWithParam<Attack> {
 protected:
  Hostile()
      : target_(absl::StrCat("unix://", TempPath("hostile.sock"))),
        server_({absl::StrCat("--listen=", target_), "--unix_socket_mode=0666",
                 "--metrics_address=", "--store=none",
                 absl::StrCat("--memory_quota_bytes=", kQuotaMib << 20)}) {}

  // The growth of the server's peak memory since it was idle, in MiB.
  int64_t Added() const {
    return (MemoryKib(server_.pid(), "VmHWM") - idle_kib_) / 1024;
  }

  const std::string target_;
  ServerProcess server_;
  int64_t idle_kib_ = 0;
};

TEST_P(Hostile, LeavesTheServerAsItWas) {
  const Attack& attack = GetParam();
  ASSERT_TRUE(server_.AwaitServing());
  ASSERT_TRUE(AnnounceTheRoute(target_).ok());
  const size_t files = OpenFiles(server_.pid());
  HonestClient honest(target_);
  ASSERT_TRUE(Await([&] { return honest.answered() > 100; }));
  idle_kib_ = MemoryKib(server_.pid(), "VmHWM");

  std::vector<std::unique_ptr<AttackerProcess>> attackers;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    attackers.push_back(std::make_unique<AttackerProcess>(
        "server/testing/hostile_attacker", target_, attack.name, seed));
  }
  for (const auto& attacker : attackers) ASSERT_TRUE(attacker->AwaitBegun());
  const absl::Time enough =
      absl::Now() +
      absl::Milliseconds(FromEnvironment("PLANB_ATTACK_MILLISECONDS", 100));
  const uint64_t before = honest.answered();
  if (attack.stopped_at == Attack::kServer) {
    EXPECT_TRUE(Await([&] {
      return (honest.answered() > before + 20 && absl::Now() > enough) ||
             honest.failed() || Added() > kQuotaMib + kMarginMib;
    })) << "the honest client is held up";
    // A new client. While the attack occupies all threads for control calls, it
    // has to try again.
    grpc::Status announced;
    EXPECT_TRUE(Await([&] {
      announced = AnnounceTheRoute(target_);
      return announced.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED;
    }));
    EXPECT_TRUE(announced.ok()) << announced.error_message();
    EXPECT_LT(Added(), kQuotaMib + kMarginMib);
  } else {
    absl::SleepFor(enough - absl::Now());
  }
  const uint64_t during = honest.answered() - before;
  uint64_t steps = 0;
  for (const auto& attacker : attackers) steps += attacker->Stop();
  std::cout << steps << " x " << attack.step << "; meanwhile " << during
            << " honest batches; " << Added() << " MiB more at the peak\n";
  EXPECT_GT(steps, 0u);
  const uint64_t attacked = honest.answered();
  EXPECT_TRUE(Await([&] {
    return honest.answered() > attacked + 20 || honest.failed();
  })) << "the honest client's stream does not go on";
  EXPECT_FALSE(honest.failed()) << honest.failure();
  EXPECT_TRUE(attack.stopped_at == Attack::kEdge || honest.resets() == 0);

  HonestClient after(target_);
  EXPECT_TRUE(Await([&] { return after.answered() > 100; }));
  EXPECT_FALSE(after.failed()) << after.failure();
  // Two honest connections, and files that gRPC opens on demand.
  EXPECT_TRUE(Await([&] { return OpenFiles(server_.pid()) <= files + 8; }))
      << OpenFiles(server_.pid()) << " files are open, " << files << " before";
  server_.Kill(SIGTERM);
  EXPECT_EQ(server_.Wait(), 0) << server_.Log();
}

INSTANTIATE_TEST_SUITE_P(Attacks, Hostile, testing::ValuesIn(AllAttacks()),
                         [](const auto& attack) { return attack.param.name; });

}  // namespace
}  // namespace planb::server
