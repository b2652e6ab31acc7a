// SPDX-License-Identifier: Apache-2.0

// A table inside the caller that follows a real server, or one that does what a
// server should not.

#include "client/local_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "base/testing/test_certificates.h"
#include "base/testing/wire.h"
#include "client/attributes.h"
#include "client/channel.h"
#include "client/lookup_client.h"
#include "client/route_watcher.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/testing/operator_new.h"

// How many threads the calling thread may start.
static thread_local int threads_left = INT_MAX;

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* options,
                              void* (*run)(void*), void* argument) noexcept {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(
      dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left == 0) return EAGAIN;
  --threads_left;
  return real(thread, options, run, argument);
}

// There is no memory for the next watch.
static std::atomic<bool> no_watch = false;

void* planb::Allocate(size_t size, size_t alignment) {
  if (size == sizeof(client::RouteWatcher) && no_watch.exchange(false)) {
    throw std::bad_alloc();
  }
  void* const block = std::aligned_alloc(
      alignment,
      (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment);
  if (block == nullptr) std::abort();
  return block;
}

void planb::Free(void* block) { std::free(block); }

namespace planb::client {
namespace {

using ::testing::HasSubstr;

// So many prefixes have one next hop in each generation of these tests, so that
// a batch of lookups that sees two generations shows it.
constexpr size_t kPrefixes = 64;

Prefix PrefixOf(size_t i) {
  return Prefix::Truncate(
      Address::V6(absl::MakeUint128(0x2001'0db8'0000'0000 | i << 16, 0)), 48);
}

// An address of each prefix, packed.
std::string Addresses() {
  std::string packed;
  for (size_t i = 0; i < kPrefixes; ++i) {
    packed += PrefixOf(i).address().ToPacked();
  }
  return packed;
}

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// A server that does with watches and lookups what a test says.
class ScriptedServer : public v1::RouteTable::Service,
                       public v1::RouteLookup::Service {
 public:
  using Out = grpc::ServerWriter<v1::WatchRoutesResponse>;
  // Serves watch number `number`, from 0, until it returns.
  using Script = std::function<grpc::Status(
      uint64_t number, const v1::WatchRoutesRequest& request, Out& out)>;
  // Returns the generation of lookup number `number`, from 0, which is also the
  // next hop of all addresses.
  using Lookups = std::function<NextHopId(uint64_t number,
                                          const v1::LookupRequest& request)>;

  explicit ScriptedServer(Script script, Lookups lookups = nullptr)
      : script_(std::move(script)), lookups_(std::move(lookups)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(target_, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<v1::RouteTable::Service*>(this));
    builder.RegisterService(static_cast<v1::RouteLookup::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~ScriptedServer() override { server_->Shutdown(absl::ToChronoTime(Soon())); }

  std::shared_ptr<grpc::Channel> Channel() const {
    return *MakeChannel(target_, {.own_connection = true});
  }
  // Waits until so many watches have begun.
  void AwaitWatches(uint64_t count) const {
    for (const absl::Time deadline = Soon(); watches_ < count;) {
      ASSERT_LT(absl::Now(), deadline) << watches_ << " watches";
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  grpc::Status WatchRoutes(grpc::ServerContext*,
                           const v1::WatchRoutesRequest* request,
                           Out* out) override {
    return script_(watches_++, *request, *out);
  }

  uint64_t lookups() const { return asked_; }
  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    const NextHopId generation = lookups_(asked_++, *request);
    response->set_generation(generation);
    for (int i = 0; i < request->addresses_size(); ++i) {
      response->add_results()->set_next_hop_id(generation);
    }
    return grpc::Status::OK;
  }

 private:
  const Script script_;
  const Lookups lookups_;
  const std::string target_ =
      absl::StrCat("unix://", TempPath("scripted.sock"));
  std::atomic<uint64_t> watches_ = 0;
  std::atomic<uint64_t> asked_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The whole table at `generation`, which is also the next hop of all prefixes.
v1::WatchRoutesResponse Whole(NextHopId generation) {
  v1::WatchRoutesResponse message;
  message.set_generation(generation);
  message.set_reset(true);
  message.set_generation_complete(true);
  for (size_t i = 0; i < kPrefixes; ++i) {
    *message.add_updates() = ToUpdate({PrefixOf(i), generation});
  }
  return message;
}

v1::WatchRoutesResponse Bookmark(NextHopId generation) {
  v1::WatchRoutesResponse message;
  message.set_generation(generation);
  message.set_generation_complete(true);
  return message;
}

// The generation that answers.
uint64_t GenerationOf(const LocalTable& table) {
  const std::string address = PrefixOf(0).address().ToPacked();
  NextHopId next_hop = kNoRoute;
  const auto generation =
      table.Lookup(Family::kIpv6, address.data(), 1, &next_hop);
  EXPECT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(next_hop, generation.value_or(0));
  return generation.value_or(0);
}

const grpc::Status kAway(grpc::StatusCode::UNAVAILABLE, "away");

// Its first watch need not end for a server to lose its table.
TEST(LocalTable, NeverTakesAnOlderTable) {
  ScriptedServer server([](uint64_t number, const auto&, auto& out) {
    out.Write(Whole(number == 0 ? 10 : 1));
    return kAway;
  });
  const auto table = LocalTable::Follow(server.Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  // A watch begins after all of the one before it was taken or left.
  server.AwaitWatches(4);
  EXPECT_EQ((*table)->generation(), 10U);
  EXPECT_EQ(*(*table)->Lookup(PrefixOf(0).address()), 10U);
}

// It is not sent either: the watch ends with its first message.
TEST(LocalTable, RefusesAnOlderTableBeforeAllOfItIsSent) {
  Mutex mutex;
  std::vector<std::string> digests;
  std::atomic<bool> whole_sent = false;
  ScriptedServer server([&](uint64_t number, const auto& request, auto& out) {
    if (number == 0) {
      out.Write(Whole(10));
      return kAway;
    }
    EXPECT_EQ(request.start_generation(), 10U);
    {
      const MutexLock lock(mutex);
      digests.push_back(request.start_digest());
    }
    // More than the windows of HTTP/2 hold.
    v1::WatchRoutesResponse part = Whole(1);
    part.set_generation_complete(false);
    for (int i = 0; i < 8; ++i) {
      part.MergeFrom(v1::WatchRoutesResponse(part));
    }
    bool sent = true;
    for (int i = 0; i < 64 && sent; ++i) sent = out.Write(part);
    if (sent) whole_sent = true;
    return kAway;
  });
  const auto table = LocalTable::Follow(server.Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  server.AwaitWatches(4);
  EXPECT_FALSE(whole_sent);
  // The server is told what is here: it may have the same by now.
  const MutexLock lock(mutex);
  for (const std::string& digest : digests) {
    EXPECT_EQ(digest, (*table)->routes().digest());
  }
}

TEST(LocalTable, FetchesASpoiltTableEverMoreRarelyAndSaysWhy) {
  std::atomic<uint64_t> watches = 0;
  ScriptedServer server([&](uint64_t number, const auto& request, auto& out) {
    EXPECT_EQ(request.start_generation(), 0U);
    watches = number + 1;
    v1::WatchRoutesResponse whole = Whole(1);
    whole.set_digest("0123456789abcdef");
    out.Write(whole);
    return grpc::Status::OK;
  });
  // A machine that is busy may hold up the first one for as long.
  absl::Status status;
  EXPECT_TRUE(SucceedsInThree([&] {
    const uint64_t before = watches;
    const absl::Time began = absl::Now();
    status = LocalTable::Follow(server.Channel(), {}, began + absl::Seconds(1))
                 .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    // After pauses of 10, 20, 40 ms and so on, each shortened by up to a half.
    if (absl::Now() - began < absl::Seconds(2)) {
      EXPECT_LT(watches - before, 12U);
    }
    return absl::StrContains(status.message(), "generation 1 leads to another");
  })) << status;
}

// Such as that of a replica that caught up over changes which cancel out.
TEST(LocalTable, ReachesAGenerationWithoutChanges) {
  ScriptedServer server([](uint64_t, const auto&, auto& out) {
    out.Write(Whole(1));
    while (out.Write(Bookmark(4))) absl::SleepFor(absl::Milliseconds(1));
    return kAway;
  });
  const auto table = LocalTable::Follow(server.Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)->WaitFor(4, Soon()), absl::OkStatus());
  EXPECT_EQ(*(*table)->Lookup(PrefixOf(0).address()), 1U);
}

TEST(LocalTable, SaysWhyThereIsNoTable) {
  absl::Status status;
  EXPECT_TRUE(SucceedsInThree([&] {
    status = LocalTable::Follow(*MakeChannel("unix:///tmp/planb_nowhere.sock"),
                                {}, absl::Now() + absl::Milliseconds(300))
                 .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    // A machine that is busy may not have tried in this time.
    return absl::StrContains(status.message(), "No such file");
  })) << status;
}

// The server is heard again before it has sent what it already answered from.
TEST(LocalTable, NeverAnswersFromBeforeAnAnswerOfTheServer) {
  std::atomic<bool> speaks = false, catches_up = false;
  ScriptedServer server(
      [&](uint64_t, const auto&, auto& out) {
        out.Write(Whole(90));
        while (!speaks) absl::SleepFor(absl::Milliseconds(1));
        while (!catches_up && out.Write(Bookmark(90))) {
          absl::SleepFor(absl::Milliseconds(1));
        }
        v1::WatchRoutesResponse change = Whole(100);
        change.set_reset(false);
        out.Write(change);
        while (out.Write(Bookmark(100))) absl::SleepFor(absl::Milliseconds(1));
        return kAway;
      },
      [](uint64_t number, const auto& request) {
        // Another server may be asked than the last time.
        EXPECT_EQ(request.min_generation(), number == 0 ? 90 : 100);
        return 100;
      });
  const auto table = LocalTable::Follow(
      server.Channel(),
      {.max_staleness = absl::Milliseconds(500), .fall_back = true}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  while (GenerationOf(**table) == 90) absl::SleepFor(absl::Milliseconds(1));
  speaks = true;
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(GenerationOf(**table), 100U);
    absl::SleepFor(absl::Milliseconds(1));
  }
  catches_up = true;
  ASSERT_TRUE((*table)->WaitFor(100, Soon()).ok());
  // Then it answers itself again.
  for (uint64_t asked = ~uint64_t{0}; asked != server.lookups();) {
    asked = server.lookups();
    ASSERT_EQ(GenerationOf(**table), 100U);
  }
}

TEST(LocalTable, NeverAnswersFromBeforeAnAnswerThatComesLate) {
  std::atomic<bool> speaks = false, answers = false;
  ScriptedServer server(
      [&](uint64_t, const auto&, auto& out) {
        out.Write(Whole(90));
        while (!speaks) absl::SleepFor(absl::Milliseconds(1));
        while (out.Write(Bookmark(90))) absl::SleepFor(absl::Milliseconds(1));
        return kAway;
      },
      [&](uint64_t number, const auto&) {
        if (number == 0) {
          while (!answers) absl::SleepFor(absl::Milliseconds(1));
        }
        return answers ? 100 : 90;
      });
  const auto table = LocalTable::Follow(
      server.Channel(),
      {.max_staleness = absl::Milliseconds(500), .fall_back = true}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  std::thread late([&] {
    while (GenerationOf(**table) == 90) absl::SleepFor(absl::Milliseconds(1));
  });
  while (server.lookups() == 0) absl::SleepFor(absl::Milliseconds(1));
  speaks = true;
  // Until it answers itself.
  for (uint64_t asked = 0; asked != server.lookups();) {
    asked = server.lookups();
    ASSERT_EQ(GenerationOf(**table), 90U);
  }
  answers = true;
  late.join();
  EXPECT_EQ(GenerationOf(**table), 100U);
}

TEST(LocalTable, TakesBoundsAndDeadlinesOfAnySize) {
  std::atomic<bool> end = false;
  ScriptedServer server([&](uint64_t, const auto&, auto& out) {
    out.Write(Whole(1));
    while (!end) absl::SleepFor(absl::Milliseconds(20));
    return kAway;
  });
  const auto table = LocalTable::Follow(
      server.Channel(),
      {.max_staleness =
           absl::Milliseconds(std::numeric_limits<int64_t>::max())},
      Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  // It sleeps: a thread that does not would take all of a second.
  const std::clock_t begin = std::clock();
  absl::SleepFor(absl::Seconds(1));
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 10);
  EXPECT_EQ(GenerationOf(**table), 1U);
  for (const absl::Time past : {absl::InfinitePast(), absl::UnixEpoch()}) {
    EXPECT_EQ((*table)->WaitFor(2, past).code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_TRUE((*table)->WaitFor(1, absl::InfiniteFuture()).ok());
  end = true;
}

TEST(LocalTable, IsAnErrorWhereAThreadIsLacking) {
  const auto channel = *MakeChannel("unix:///tmp/planb_nowhere.sock");
  const auto follow = [&](int threads) {
    threads_left = threads;
    const absl::Status status =
        LocalTable::Follow(channel, {.max_staleness = absl::Seconds(1)},
                           absl::Now())
            .status();
    threads_left = INT_MAX;
    return status.code();
  };
  EXPECT_EQ(follow(0), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(follow(1), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(follow(2), absl::StatusCode::kDeadlineExceeded);
}

TEST(LocalTable, FollowsOnAfterALackOfMemory) {
  ScriptedServer server([](uint64_t, const auto&, auto& out) {
    out.Write(Whole(1));
    return kAway;
  });
  no_watch = true;
  const auto table = LocalTable::Follow(server.Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_FALSE(no_watch);
  EXPECT_EQ(GenerationOf(**table), 1U);
}

class LocalTableTest : public testing::RealServerFixture {
 protected:
  // Makes `next_hop` that of all prefixes, in one generation. Longer prefixes
  // around the addresses that are looked up come and go with it, as `longer`.
  uint64_t Announce(NextHopId next_hop, bool longer = false) {
    v1::UpdateRoutesRequest request;
    int length = 64;
    for (size_t i = 0; i < kPrefixes; ++i) {
      *request.add_updates() = ToUpdate({PrefixOf(i), next_hop});
      *request.add_updates() =
          ToUpdate({Prefix::Truncate(PrefixOf(i).address(), length++),
                    longer ? next_hop : kNoRoute});
    }
    const auto response = TableClient(Channel()).UpdateRoutes(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->generation() : 0;
  }
};

TEST_F(LocalTableTest, ReadsWhatWasWritten) {
  const auto table = LocalTable::Follow(Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  for (NextHopId hop = 1; hop < 50; ++hop) {
    const uint64_t generation = Announce(hop);
    ASSERT_TRUE((*table)->WaitFor(generation, Soon()).ok());
    EXPECT_EQ(*(*table)->Lookup(PrefixOf(hop % kPrefixes).address()), hop);
  }
  EXPECT_EQ((*table)->resyncs(), 0U);
  EXPECT_EQ((*table)->routes().digest(),
            TableClient(Channel()).GetTable("")->digest());
  EXPECT_EQ((*table)->WaitFor(1000, absl::Now()).code(),
            absl::StatusCode::kDeadlineExceeded);
}

// The lines of README.md, which docs/commands_test.py looks for here.
TEST_F(LocalTableTest, IsUsedAsItsReadmeShows) {
  Announce(7);
  const auto channel = Channel();
  const absl::Time deadline = Soon();
  const std::string packets = Addresses();
  const char* packet_addresses = packets.data();
  const size_t n = kPrefixes;

  auto table = LocalTable::Follow(channel, {.max_staleness = absl::Seconds(15)},
                                  deadline);
  std::vector<NextHopId> next_hops(n);
  auto generation =
      (*table)->Lookup(Family::kIpv6, packet_addresses, n, next_hops.data());

  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 1U);
  EXPECT_EQ(next_hops, std::vector<NextHopId>(n, 7));
}

// What a Python process needs to load a library with ASan, if this is one: the
// runtime, and no look at what Python leaks.
#ifdef __SANITIZE_ADDRESS__
constexpr char kSanitizer[] =
    "LD_PRELOAD=$(g++ -print-file-name=libasan.so) "
    "ASAN_OPTIONS=detect_leaks=0 ";
#else
constexpr char kSanitizer[] = "";
#endif

// Runs /usr/bin/python3 with these arguments. Returns what it prints, and its
// status unless that is 0.
std::string Python(const std::string& arguments) {
  const std::string output = TempPath("local_table.out");
  const std::string command = absl::StrCat(
      kSanitizer,
      "PYTHONPATH=client/examples PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 ",
      arguments, " > ", output, " 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream in(output);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(output);
  if (status != 0) absl::StrAppend(&text, "status ", WEXITSTATUS(status));
  return text;
}

TEST_F(LocalTableTest, AnswersThroughTheLibraryForOtherLanguages) {
  Announce(7);
  EXPECT_EQ(Python(absl::StrCat("client/examples/local_table.py "
                                "client/libplanb_local.so ",
                                target_, " 2001:db8:5::1 3000::1")),
            "2001:db8:5::1 7\n3000::1 0\ngeneration 1\n");
  EXPECT_THAT(Python("client/examples/local_table.py "
                     "client/libplanb_local.so nonsense:: ::1"),
              ::testing::EndsWith("status 1"));
}

TEST_F(LocalTableTest, TheExampleReadsAndWritesArraysInPlace) {
  Announce(7);
  v1::UpdateRoutesRequest request;
  *request.add_updates() = ToUpdate({*Prefix::Parse("192.0.2.0/24"), 9});
  v1::NextHop& described = *request.add_next_hops();
  described.set_id(9);
  described.mutable_attributes()->set_origin_as(64496);
  ASSERT_TRUE(
      ParseAsPath("64500 {64496,1}", *described.mutable_attributes()).ok());
  ASSERT_TRUE(TableClient(Channel()).UpdateRoutes(request).ok());
  const std::string script = TempPath("arrays.py");
  std::ofstream(script) << R"(
import ctypes
import sys
import numpy as np
import local_table

table = local_table.LocalTable("client/libplanb_local.so", sys.argv[1])
assert table.wait(2)
rows = np.zeros((1000, 16), np.uint8)
rows[::2, :4] = (0x20, 0x01, 0x0d, 0xb8)
rows[::2, 5] = np.arange(500) % 64
wanted = np.where(np.arange(1000) % 2, 0, 7)

# The library is given these arrays, and no other memory.
passed = []
lookup_v6 = table._c.planb_local_lookup_v6
def remember(handle, addresses, count, hops, generation):
    passed.append((addresses.value, hops.value))
    return lookup_v6(handle, addresses, count, hops, generation)
table._c.planb_local_lookup_v6 = remember
out = np.full(1000, 5, np.uint32)
hops, generation = table.lookup(rows, out)
assert hops is out and generation == 2, generation
assert passed == [(rows.ctypes.data, out.ctypes.data)]
assert (out == wanted).all(), out
hops, _ = table.lookup(rows[10:20])
assert passed[1] == (rows.ctypes.data + 160, hops.ctypes.data)
assert hops.dtype == np.uint32 and (hops == wanted[10:20]).all(), hops

hops, _ = table.lookup(np.array([[192, 0, 2, 1], [192, 0, 3, 1]], np.uint8))
assert list(hops) == [9, 0], hops
origin, path = ctypes.c_uint32(), ctypes.create_string_buffer(3072)
def origin_of(hop, size=3072):
    code = table._c.planb_local_origin(table._table, hop, ctypes.byref(origin), path,
                                       ctypes.c_size_t(size))
    return code, origin.value, path.value
assert origin_of(9) == (0, 64496, b"64500 {64496,1}"), origin_of(9)
assert origin_of(9, 6) == (0, 64496, b"64500"), origin_of(9, 6)
assert origin_of(7)[0] == 5
hops, _ = table.lookup(np.empty((0, 16), np.uint8))
assert len(hops) == 0

frozen = np.empty(1000, np.uint32)
frozen.flags.writeable = False
for wrong in ((rows[::2], None), (rows.astype(np.int32), None), (rows[:, :8], None),
              (rows.T, None), (rows.ravel(), None), (rows, out[:999]),
              (rows, out.astype(np.uint64)), (rows, np.empty(2000, np.uint32)[::2]),
              (rows, out.astype(">u4")), (rows, frozen)):
    try:
        table.lookup(*wrong)
    except ValueError:
        continue
    raise AssertionError(wrong)
assert len(passed) == 3
table.close()
print("done")
)";
  EXPECT_EQ(Python(absl::StrCat(script, " ", target_)), "done\n");
  std::filesystem::remove(script);
}

TEST_F(LocalTableTest, TheLibraryTakesOptionsOfOtherVersionsAndNoOthers) {
  Announce(7);
  const std::string script = TempPath("options.py");
  std::ofstream(script) << R"(
import ctypes
import sys
import local_table

library = ctypes.CDLL("client/libplanb_local.so")
server = sys.argv[1].encode()

def follow(options):
    table, error = ctypes.c_void_p(), ctypes.create_string_buffer(20)
    code = library.planb_local_follow(
        options and ctypes.byref(options), ctypes.byref(table), error,
        ctypes.c_size_t(len(error)))
    assert bool(table) == (code == 0), (table, code)
    library.planb_local_close(table)
    return code, error.value.decode()

class Later(ctypes.Structure):
    _fields_ = [("known", local_table.Options), ("unknown", ctypes.c_uint64)]

def options(size, **fields):
    fields = {"server": server, "timeout_ms": 30_000, **fields}
    return local_table.Options(size=size, **fields)

known = ctypes.sizeof(local_table.Options)
assert follow(options(known)) == (0, "")
# An older caller ends before the fields of TLS: what follows is not read.
assert follow(options(local_table.Options.tls_ca.offset, tls_ca=b"/nowhere")) == (0, "")
assert follow(Later(options(known + 8), 0)) == (0, "")
assert follow(Later(options(known + 8), 1)) == (3, "the options have fi")
assert follow(options(known, table=b"x" * 4096))[0] == 5
for wrong in (None, options(0), options(8), options(5000), options(known, server=None),
              options(known, server=b"nonsense"), options(known, table=b"x" * 4097),
              options(known, tls_ca=b""), options(known, tls_cert=b"/nowhere"),
              options(known, server=b"localhost:1", tls_ca=b"/nowhere")):
    code, error = follow(wrong)
    assert code == 3 and error, (wrong, code, error)
assert library.planb_local_follow(None, None, None, ctypes.c_size_t(0)) == 3
good, error = options(known), ctypes.create_string_buffer(80)
assert library.planb_local_follow(ctypes.byref(good), None, error, ctypes.c_size_t(80)) == 3
assert error.value == b"the table has no place: it is NULL", error.value
print("done")
)";
  EXPECT_EQ(Python(absl::StrCat(script, " ", target_)), "done\n");
  std::filesystem::remove(script);
}

TEST_F(LocalTableTest, AForkIsToldThatItFollowsNothing) {
  Announce(7);
  const std::string script = TempPath("fork.py");
  std::ofstream(script) << R"(
import os
import signal
import sys
import numpy as np
import local_table

path, server = "client/libplanb_local.so", sys.argv[1]
rows = np.zeros((2, 16), np.uint8)
tables = [local_table.LocalTable(path, server) for _ in range(2)]

def told(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "nothing"

for _ in range(5):
    child = os.fork()
    signal.alarm(60)
    if child == 0:
        assert told(lambda: tables[0].lookup(rows)) == "the lookup failed with code 9"
        assert not tables[0].wait(1 << 60, timeout=60)
        tables[0].close()
        assert "code 9: this process was forked" in told(
            lambda: local_table.LocalTable(path, server))
        if os.fork() == 0:  # and a fork of it
            assert "code 9" in told(lambda: local_table.LocalTable(path, server))
            os._exit(0)  # gRPC's locks may be those of threads that are gone
        assert os.wait()[1] == 0
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for table in tables:
        assert told(lambda: table.lookup(rows)) == "nothing"
for table in tables:
    table.close()
if os.fork() == 0:
    assert told(lambda: local_table.LocalTable(path, server)) == "nothing"
    os._exit(0)
assert os.wait()[1] == 0
print("done")
)";
  EXPECT_EQ(Python(absl::StrCat(script, " ", target_)), "done\n");
  std::filesystem::remove(script);
}

// Callers that may look up, and callers that may watch as well, by the name in
// their certificates.
class WatchRightTest : public LocalTableTest {
 protected:
  void StartGuarded() {
    std::ofstream(policy_) << R"({"name": "p", "allow_rules": [
        {"name": "lookups", "request": {"paths": [
         "/planb.v1.RouteLookup/*", "/planb.v1.RouteTable/UpdateRoutes"]}},
        {"name": "watches", "source": {"principals": ["CN=watcher"]},
         "request": {"paths": ["/planb.v1.RouteTable/WatchRoutes"]}}]})";
    Start("none", "",
          {absl::StrCat("--listen=", target_, ",", kAnyPort),
           absl::StrCat("--tls_cert=", files_.cert()),
           absl::StrCat("--tls_key=", files_.key()),
           absl::StrCat("--tls_client_ca=", files_.ca()),
           absl::StrCat("--authorization_policy=", policy_)});
    address_ = absl::StrCat("127.0.0.1:", server_->PortOf(kAnyPort));
  }
  void SetUp() override {
    files_.SetAuthority(authority_.certificate());
    files_.SetIdentity(authority_.Issue());
    watcher_.SetIdentity(
        authority_.Issue({.common_name = "watcher", .names = ""}));
    looker_.SetIdentity(
        authority_.Issue({.common_name = "looker", .names = ""}));
    StartGuarded();
    Announce(7);
  }
  ~WatchRightTest() override { std::filesystem::remove(policy_); }

  std::shared_ptr<grpc::Channel> ChannelOf(const TestTlsFiles& caller) const {
    return *MakeChannel(address_, {.own_connection = true,
                                   .tls = TlsOptions{.ca = files_.ca(),
                                                     .cert = caller.cert(),
                                                     .key = caller.key()}});
  }

  static constexpr char kAnyPort[] = "127.0.0.1:0";
  TestAuthority authority_;
  TestTlsFiles files_, watcher_, looker_;
  std::string address_;
  const std::string policy_ = TempPath("policy.json");
};

TEST_F(WatchRightTest, ACallerThatMayLookUpDoesNotGetTheTableByThat) {
  const Address address = PrefixOf(5).address();
  const auto answered = LookupClient(ChannelOf(looker_)).Lookup({address}, {});
  ASSERT_TRUE(answered.ok()) << answered.status();
  EXPECT_EQ(answered->answers[0].next_hop, 7U);
  EXPECT_EQ(LocalTable::Follow(ChannelOf(looker_), {.fall_back = true}, Soon())
                .status()
                .code(),
            absl::StatusCode::kPermissionDenied);
  const auto table = LocalTable::Follow(ChannelOf(watcher_), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(*(*table)->Lookup(address), 7U);
}

// Takes 5 s: gRPC waits before it connects to a restarted server again.
TEST_F(WatchRightTest, ATableEndsWhenItsCallerMayNotWatchAnyMore) {
  Kill();
  Start("none");
  const auto table = LocalTable::Follow(Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  Kill();
  StartGuarded();  // over the Unix socket callers have no name
  EXPECT_EQ((*table)->WaitFor(1000, Soon()).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ((*table)->Lookup(PrefixOf(5).address()).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(WatchRightTest, OtherLanguagesFollowWithTheirCertificates) {
  const auto lookup = [&](const std::string& flags) {
    return Python(absl::StrCat("client/examples/local_table.py ", flags,
                               " client/libplanb_local.so ", address_,
                               " 2001:db8:5::1"));
  };
  const auto identity = [](const TestTlsFiles& caller) {
    return absl::StrCat(" --tls_cert=", caller.cert(),
                        " --tls_key=", caller.key());
  };
  const std::string ca = absl::StrCat("--tls_ca=", files_.ca());
  EXPECT_EQ(lookup(ca + identity(watcher_)), "2001:db8:5::1 7\ngeneration 1\n");
  EXPECT_THAT(lookup(ca + identity(looker_)),
              ::testing::HasSubstr("RuntimeError: code 7:"));
  EXPECT_THAT(lookup(ca + " --tls_cert=" + watcher_.cert()),
              ::testing::HasSubstr("RuntimeError: code 3:"));
}

// Nothing that is passed or that is lacking ends the caller's process.
TEST(LocalTableLibrary, ReturnsErrors) {
  const std::string script = TempPath("library.py");
  std::ofstream(script) << R"(
import ctypes

c = ctypes.CDLL("client/libplanb_local.so")
c.planb_local_open.restype = ctypes.c_void_p
c.planb_local_generation.restype = ctypes.c_uint64
c.planb_local_staleness_ms.restype = ctypes.c_int64

def error_of(server, table):
    error = ctypes.create_string_buffer(256)
    assert not c.planb_local_open(
        server, table, ctypes.c_int64(1), ctypes.c_int64(0), error,
        ctypes.c_size_t(len(error)))
    assert not c.planb_local_open(
        server, table, ctypes.c_int64(1), ctypes.c_int64(0), None,
        ctypes.c_size_t(0))
    return error.value.decode()

print(error_of(None, None))
for lookup in (c.planb_local_lookup_v6, c.planb_local_lookup_v4):
    print(lookup(None, bytes(16), ctypes.c_size_t(1), (ctypes.c_uint32 * 1)(),
                 None))
print(c.planb_local_origin(None, 1, None, None, ctypes.c_size_t(0)))
print(c.planb_local_wait(None, ctypes.c_uint64(0), ctypes.c_int64(0)))
print(c.planb_local_generation(None), c.planb_local_staleness_ms(None))
c.planb_local_close(None)
)";
  EXPECT_EQ(Python(script), "the options have no server\n3\n3\n3\n3\n0 -1\n");
  std::filesystem::remove(script);
}

TEST_F(LocalTableTest, EndsWithATableThatIsDeleted) {
  EXPECT_EQ(
      LocalTable::Follow(Channel(), {.table = "blue"}, Soon()).status().code(),
      absl::StatusCode::kNotFound);
  const TableClient client(Channel());
  ASSERT_TRUE(client.CreateTable("blue").ok());
  const auto table = LocalTable::Follow(Channel(), {.table = "blue"}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(client.DeleteTable("blue").ok());
  EXPECT_EQ((*table)->WaitFor(1000, Soon()).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ((*table)->Lookup(PrefixOf(0).address()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(LocalTableTest, StaleLookupsFailOrAskTheServer) {
  Announce(5);
  // The server sends a bookmark every 5 s.
  LocalTableOptions options = {.max_staleness = absl::Milliseconds(200)};
  const auto fails = LocalTable::Follow(Channel(), options, Soon());
  options.fall_back = true;
  const auto asks = LocalTable::Follow(Channel(), options, Soon());
  ASSERT_TRUE(fails.ok() && asks.ok());
  while ((*fails)->Lookup(PrefixOf(0).address()).ok()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GT((*fails)->staleness(), absl::Milliseconds(200));
  EXPECT_EQ((*fails)->Lookup(PrefixOf(0).address()).status().code(),
            absl::StatusCode::kUnavailable);
  std::vector<NextHopId> hops(5000);
  const std::string addresses(16 * hops.size(), '\0');
  const auto lookup = [&](size_t count) {
    return (*asks)
        ->Lookup(Family::kIpv6, addresses.data(), count, hops.data())
        .ok();
  };
  // More than are asked for at once.
  while (lookup(5000)) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(*(*asks)->Lookup(PrefixOf(0).address()), 5U);
  EXPECT_TRUE(lookup(4096));
  Kill();
  EXPECT_FALSE((*asks)->Lookup(PrefixOf(0).address()).ok());
}

// Takes 6 s: gRPC waits before it connects to a restarted server again, and a
// server that is behind is asked for its table ever more rarely.
TEST_F(LocalTableTest, KeepsItsTableUntilTheServerIsAheadAgain) {
  for (NextHopId hop = 1; hop <= 10; ++hop) Announce(hop);
  const auto table = LocalTable::Follow(Channel(), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  // Its table was in memory only.
  Kill();
  Start("none");
  Announce(77);
  // Until it has seen the server's table.
  for (const absl::Time end = Soon(); absl::Now() < end;) {
    const absl::Status status = (*table)->WaitFor(11, absl::Now());
    if (absl::StrContains(status.message(), "goes back")) break;
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT((*table)->WaitFor(11, absl::Now()).ToString(),
              HasSubstr("goes back to generation 1"));
  EXPECT_EQ((*table)->generation(), 10U);
  EXPECT_EQ(*(*table)->Lookup(PrefixOf(0).address()), 10U);
  for (NextHopId hop = 1; hop <= 10; ++hop) Announce(100 + hop);
  EXPECT_TRUE((*table)->WaitFor(11, Soon()).ok());
  EXPECT_EQ(*(*table)->Lookup(PrefixOf(0).address()), 110U);
  EXPECT_GT((*table)->resyncs(), 0U);
}

// Its connection stays open, and nothing comes on it any more.
TEST(LocalTable, FollowsOnWhereItsConnectionGoesSilent) {
  const ServerProcess server(
      {"--listen=127.0.0.1:0", "--store=none",
       "--metrics_address=", "--min_ping_interval=500ms"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const std::string address =
      absl::StrCat("127.0.0.1:", server.PortOf("127.0.0.1:0"));
  Wire wire(address);
  const ChannelOptions quick = {.keepalive_time = absl::Seconds(1),
                                .keepalive_timeout = absl::Seconds(1)};
  const auto table =
      LocalTable::Follow(*MakeChannel(wire.address(), quick), {}, Soon());
  ASSERT_TRUE(table.ok()) << table.status();
  wire.Strand();
  v1::UpdateRoutesRequest request;
  *request.add_updates() = ToUpdate({PrefixOf(0), 7});
  ASSERT_TRUE(TableClient(*MakeChannel(address)).UpdateRoutes(request).ok());
  EXPECT_TRUE((*table)->WaitFor(1, Soon()).ok());
  EXPECT_EQ(*(*table)->Lookup(PrefixOf(0).address()), 7U);
}

// Callers of one table on several threads. Each generation of the server has
// the next hop of its number.
class Callers {
 public:
  // With `may_fail`, the server may be asked while it is away.
  Callers(const LocalTable& table, bool may_fail)
      : table_(table), may_fail_(may_fail) {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Call(); });
  }
  ~Callers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  uint64_t answered() const { return answered_; }
  // The newest generation that one of them had an answer from.
  uint64_t newest() const { return newest_; }

 private:
  void Call() {
    std::string addresses = Addresses();
    addresses += Address::Parse("3000::1")->ToPacked();
    while (!stop_) {
      // What one had before another one asks.
      const uint64_t least = newest_;
      std::vector<NextHopId> hops(kPrefixes + 1, ~NextHopId{0});
      const auto generation = table_.Lookup(Family::kIpv6, addresses.data(),
                                            hops.size(), hops.data());
      if (!generation.ok()) {
        ASSERT_TRUE(may_fail_ &&
                    (absl::IsUnavailable(generation.status()) ||
                     absl::IsDeadlineExceeded(generation.status())))
            << generation.status();
        continue;
      }
      ASSERT_GE(*generation, least);
      ASSERT_EQ(hops.back(), kNoRoute);
      hops.pop_back();
      for (const NextHopId hop : hops) ASSERT_EQ(hop, *generation);
      ++answered_;
      uint64_t newest = newest_;
      while (newest < *generation &&
             !newest_.compare_exchange_weak(newest, *generation)) {
      }
    }
  }

  const LocalTable& table_;
  const bool may_fail_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> answered_ = 0;
  std::atomic<uint64_t> newest_ = 0;
  std::vector<std::thread> threads_;
};

// The server is killed while it is written to, and starts from its store.
// PLANB_STORM_SECONDS makes it longer.
TEST_F(LocalTableTest, IsNeverWrongOrMixedInAStorm) {
  const absl::Time end =
      absl::Now() + absl::Seconds(FromEnvironment("PLANB_STORM_SECONDS", 1));
  Kill();
  const std::string store = TempPath("local.db");
  Start(store);
  Announce(1);
  LocalTableOptions options;
  options.backoff.max = absl::Milliseconds(100);
  const auto follows = LocalTable::Follow(Channel(), options, Soon());
  // It asks the server whenever that was not heard for a moment.
  options.max_staleness = absl::Milliseconds(20);
  options.fall_back = true;
  const auto asks = LocalTable::Follow(Channel(), options, Soon());
  ASSERT_TRUE(follows.ok() && asks.ok()) << follows.status() << asks.status();
  {
    const Callers following(**follows, /*may_fail=*/false);
    const Callers asking(**asks, /*may_fail=*/true);
    NextHopId hop = 1;
    std::mt19937_64 random(2);
    while (absl::Now() < end && !HasFailure()) {
      for (uint64_t i = random() % 300; i > 0 && !HasFailure(); --i) {
        ++hop;
        EXPECT_EQ(Announce(hop, /*longer=*/hop % 2 == 0), hop);
      }
      // Some kills interrupt the two tables, others find them done.
      for (const auto* table : {&*follows, &*asks}) {
        if (random() % 4 == 0) {
          EXPECT_TRUE((*table)->WaitFor(hop, Soon()).ok());
        }
      }
      Kill();
      Start(store);
    }
    for (const auto* table : {&*follows, &*asks}) {
      EXPECT_TRUE((*table)->WaitFor(hop, Soon()).ok());
      EXPECT_EQ((*table)->routes().digest(),
                TableClient(Channel()).GetTable("")->digest());
    }
    EXPECT_TRUE(Await([&] { return following.answered() > 1000; }));
    while (asking.newest() < hop && !HasFailure()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  for (const char* suffix : {"", "-wal", "-shm", "-mark"}) {
    std::filesystem::remove(store + suffix);
  }
}

}  // namespace
}  // namespace planb::client
