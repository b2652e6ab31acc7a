// SPDX-License-Identifier: Apache-2.0

// The proof from outside: the real server, the real planbctl, a table of the
// Internet's size, and every answer checked. With PLANB_DATA_DIR also the real
// Internet's table.
//
// Two independent references: planbctl verify carries its own (hash tables by
// length), and the checker below knows, for each probe, every route that ever
// covers it, and so the one right answer of each generation.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/server_process.h"
#include "lpm/testing/real_tables.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb {
namespace {

constexpr size_t kChunk = 10'000;  // of planbctl load

// The server, listening on a Unix socket and a TCP port.
class Listening {
 public:
  explicit Listening(std::vector<std::string> flags)
      : process_(WithAddresses(std::move(flags))) {}

  static std::string unix_target() {
    return absl::StrCat("unix://", TempPath("e2e.sock"));
  }
  // Below the range from which the kernel picks ports for connections.
  static std::string tcp_target() {
    return absl::StrCat("127.0.0.1:", 20'000 + getpid() % 10'000);
  }

  bool AwaitServing() const { return process_.AwaitServing(); }

  int Terminate() {
    process_.Kill(SIGTERM);
    return process_.Wait();
  }

 private:
  static std::vector<std::string> WithAddresses(
      std::vector<std::string> flags) {
    flags.push_back("--metrics_address=");
    flags.push_back(
        absl::StrCat("--listen=", unix_target(), ",", tcp_target()));
    return flags;
  }

  ServerProcess process_;
};

// Runs planbctl and gives its exit code.
int Planbctl(const std::string& target, const std::string& arguments) {
  const int status =
      system(absl::StrCat("client/planbctl/planbctl --server=", target,
                          " --timeout=60s ", arguments)
                 .c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Which answer a probe has once the first so many routes are there.
class Timeline {
 public:
  Timeline(const std::vector<Route>& routes, size_t probes) {
    absl::flat_hash_map<Prefix, size_t> position;
    std::vector<bool> used(129);
    for (size_t i = 0; i < routes.size(); ++i) {
      position[routes[i].prefix] = i;
      used[static_cast<size_t>(routes[i].prefix.length())] = true;
    }
    for (size_t p = 0; p < probes; ++p) {
      const Address address =
          routes[p * routes.size() / probes].prefix.address();
      packed_ += address.ToPacked();
      std::vector<std::pair<size_t, NextHopId>>& covers =
          covers_.emplace_back();
      for (int length = 128; length >= 0; --length) {
        if (!used[static_cast<size_t>(length)]) continue;
        const auto it = position.find(Prefix::Truncate(address, length));
        if (it != position.end()) {
          covers.push_back({it->second, routes[it->second].next_hop});
        }
      }
    }
  }

  const std::string& packed() const { return packed_; }
  size_t size() const { return covers_.size(); }

  NextHopId Answer(size_t probe, size_t routes) const {
    for (const auto& [position, next_hop] : covers_[probe]) {
      if (position < routes) return next_hop;
    }
    return kNoRoute;
  }

 private:
  std::string packed_;
  // By probe: the routes that cover it, longest first, and their place in line.
  std::vector<std::vector<std::pair<size_t, NextHopId>>> covers_;
};

// Looks the probes up over and over until told to stop.
class Checker {
 public:
  Checker(const std::string& target, const Timeline& timeline)
      : timeline_(timeline),
        stub_(v1::RouteLookup::NewStub(
            grpc::CreateChannel(target, grpc::InsecureChannelCredentials()))),
        thread_([this] { Run(); }) {}

  // Returns how many generations were seen.
  size_t Stop() {
    stop_ = true;
    thread_.join();
    return generations_;
  }

 private:
  void Run() {
    grpc::ClientContext context;
    const auto stream = stub_->BatchLookup(&context);
    v1::BatchLookupRequest request;
    request.set_addresses_v6(timeline_.packed());
    v1::BatchLookupResponse response;
    uint64_t last = UINT64_MAX;
    while (!stop_) {
      ASSERT_TRUE(stream->Write(request));
      ASSERT_TRUE(stream->Read(&response));
      ASSERT_FALSE(response.has_error()) << response.error().message();
      const uint64_t generation = response.generation();
      if (generation != last) {
        ASSERT_TRUE(last == UINT64_MAX || generation > last);
        ++generations_;
        last = generation;
      }
      ASSERT_EQ(response.next_hops().size(), 4 * timeline_.size());
      for (size_t p = 0; p < timeline_.size(); ++p) {
        uint32_t found;
        std::memcpy(&found, response.next_hops().data() + 4 * p, 4);
        ASSERT_EQ(found, timeline_.Answer(p, generation * kChunk))
            << "probe " << p << " at generation " << generation;
      }
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }

  const Timeline& timeline_;
  std::unique_ptr<v1::RouteLookup::Stub> stub_;
  std::atomic<bool> stop_{false};
  size_t generations_ = 0;
  std::thread thread_;
};

// The file of routes to work on; skips where there is none.
class EndToEnd : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("Real")) {
      path_ = RealTablePath(Family::kIpv6);
      if (path_.empty()) GTEST_SKIP() << "no real table in PLANB_DATA_DIR";
    } else {
      path_ = absl::StrCat(testing::TempDir(), "/table.txt");
      ASSERT_EQ(Planbctl("none", absl::StrCat("generate --routes 100000 "
                                              "--seed 7 ",
                                              path_)),
                0);
    }
    const auto routes = ReadPlainTable(path_);
    ASSERT_TRUE(routes.ok()) << routes.status();
    routes_ = *routes;
  }

  std::string path_;
  std::vector<Route> routes_;
};

TEST_P(EndToEnd, AServerStartedOnTheTableAnswersExactly) {
  Listening server({absl::StrCat("--routes=", path_)});
  ASSERT_TRUE(server.AwaitServing());
  for (const std::string& target :
       {server.unix_target(), server.tcp_target()}) {
    EXPECT_EQ(Planbctl(target, absl::StrCat("verify ", path_)), 0);
  }
  EXPECT_EQ(server.Terminate(), 0);
}

TEST_P(EndToEnd, LoadingUnderLookupsNeverShowsHalfABatch) {
  Listening server({});
  ASSERT_TRUE(server.AwaitServing());
  const Timeline timeline(routes_, 4096);
  Checker checker(server.unix_target(), timeline);
  EXPECT_EQ(Planbctl(server.tcp_target(),
                     absl::StrCat("load --chunk ", kChunk, " ", path_)),
            0);
  EXPECT_GT(checker.Stop(), 2U);
  EXPECT_EQ(Planbctl(server.unix_target(), absl::StrCat("verify ", path_)), 0);
  EXPECT_EQ(server.Terminate(), 0);
}

INSTANTIATE_TEST_SUITE_P(Tables, EndToEnd, testing::Values("Generated", "Real"),
                         [](const auto& table) { return table.param; });

}  // namespace
}  // namespace planb
