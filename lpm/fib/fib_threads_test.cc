// SPDX-License-Identifier: Apache-2.0

// What threads share: readers beside a writer that updates as fast as it can,
// versions that die on other threads, one FIB that many threads read. Made to
// run under TSan.
//
// In generation g every route of the table has next hop g, whichever routes
// there are, so what is right can be told from the answers alone: a batch must
// see one generation, no older than was published before the batch began, and
// what one reader sees must never go back.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// Hands FIBs from a writer to readers. The last to let go of a FIB destroys it:
// the writer, or often a reader. (The server's own way is tested there.)
class Publication {
 public:
  void Publish(std::unique_ptr<const Fib> fib) {
    std::shared_ptr<const Fib> next = std::move(fib);
    const MutexLock lock(mutex_);
    current_.swap(next);
  }

  std::shared_ptr<const Fib> Get() {
    const MutexLock lock(mutex_);
    return current_;
  }

 private:
  Mutex mutex_;
  std::shared_ptr<const Fib> current_;  // guarded by mutex_
};

constexpr size_t kReaders = 3;
// The writer continues until each reader has seen so many generations.
constexpr uint64_t kSeen = 200;
constexpr NextHopId kAtLeast = 1500;

// The routes of one family: some always there, some coming and going inside
// them, so that the structure changes its shape while the answers stay known.
class Writer {
 public:
  Writer(Family family, const FibOptions& options, const FibPacking& packing)
      : routes_(family),
        compiler_(FibLimitsPeer::Compiler(family, packing, options)),
        random_(1) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      for (const Prefix& prefix : HardPrefixes(family, 60, seed)) {
        const bool covered = std::any_of(
            stable_.begin(), stable_.end(),
            [&](const Prefix& above) { return above.Covers(prefix); });
        if (prefix.length() < 8) continue;
        (covered ? passing_ : stable_).push_back(prefix);
      }
    }
    compiler_->Compile(routes_).value();
  }

  // Each is inside a route that is always there.
  std::vector<Address> Probes() const {
    std::vector<Route> inside;
    for (const Prefix& prefix : stable_) inside.push_back({prefix});
    for (const Prefix& prefix : passing_) inside.push_back({prefix});
    std::vector<Address> probes = InsideProbes(inside, 2, 1);
    for (const Route& route : inside) {
      probes.push_back(FirstAddress(route.prefix));
      probes.push_back(LastAddress(route.prefix));
    }
    return probes;
  }

  std::unique_ptr<const Fib> Next(NextHopId generation) {
    std::vector<Prefix> changed = stable_;
    for (const Prefix& prefix : stable_) routes_.Announce(prefix, generation);
    for (const Prefix& prefix : passing_) {
      if (random_.Chance(1, 3)) {
        if (routes_.Withdraw(prefix)) changed.push_back(prefix);
      } else if (routes_.Find(prefix) != kNoRoute || random_.Chance(1, 3)) {
        routes_.Announce(prefix, generation);
        changed.push_back(prefix);
      }
    }
    return compiler_->Update(routes_, changed).value();
  }

 private:
  RouteSet routes_;
  const std::unique_ptr<FibCompiler> compiler_;
  Random random_;
  std::vector<Prefix> stable_;
  std::vector<Prefix> passing_;
};

// Checks until told to stop; says what was wrong, or "".
class Reader {
 public:
  Reader(size_t number, Publication& publication,
         const std::atomic<NextHopId>& published,
         const std::vector<Address>& probes)
      : number_(number),
        publication_(publication),
        published_(published),
        packed_(PackAs(WholeForm(probes.at(0).family()), probes)),
        answers_(probes.size()),
        lengths_(probes.size()) {}

  void Run(const std::atomic<bool>& stop) {
    const auto kernels = AvailableKernels();
    for (size_t round = 0; wrong_.empty() && !stop.load(); ++round) {
      ReadBatch(*kernels[(round + number_) % kernels.size()]);
    }
  }

  // Of Run, on the same thread or after it.
  const std::string& wrong() const { return wrong_; }
  // While Run runs. How many generations it saw.
  uint64_t seen() const { return seen_.load(); }

 private:
  void ReadBatch(const Kernel& kernel) {
    const NextHopId at_least = published_.load();
    {
      const std::shared_ptr<const Fib> fib = publication_.Get();
      if (fib->keeps_prefix_lengths()) {
        fib->LookupWithLengths(packed_.data(), answers_.size(), answers_.data(),
                               lengths_.data(), kernel);
      } else {
        fib->Lookup(packed_.data(), answers_.size(), answers_.data(), kernel);
        lengths_.assign(lengths_.size(), 128);
      }
    }
    const NextHopId generation = answers_[0];
    for (const uint8_t length : lengths_) {
      if (length < 8 || length > 128) wrong_ = "a length that no route has";
    }
    for (size_t i = 0; i < answers_.size(); ++i) {
      if (answers_[i] == generation) continue;
      wrong_ = "answer " + std::to_string(i) + " is of generation " +
               std::to_string(answers_[i]) + ", the first of " +
               std::to_string(generation);
    }
    if (generation < at_least || generation < last_) {
      wrong_ = "generation " + std::to_string(generation) + " after " +
               std::to_string(std::max(at_least, last_));
    }
    if (generation != last_) seen_.fetch_add(1);
    last_ = generation;
  }

  const size_t number_;
  Publication& publication_;
  const std::atomic<NextHopId>& published_;
  const std::vector<char> packed_;
  std::vector<NextHopId> answers_;
  std::vector<uint8_t> lengths_;
  NextHopId last_ = 0;
  std::string wrong_;
  std::atomic<uint64_t> seen_{0};
};

void Torture(Family family, const FibOptions& options = {},
             const FibPacking& packing = {}) {
  Writer writer(family, options, packing);
  const std::vector<Address> probes = writer.Probes();
  Publication publication;
  std::atomic<NextHopId> published{0};
  std::atomic<bool> stop{false};
  NextHopId generation = 1;
  publication.Publish(writer.Next(generation));
  published.store(generation);

  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.push_back(
        std::make_unique<Reader>(i, publication, published, probes));
    threads.emplace_back([&stop, &reader = *readers[i]] { reader.Run(stop); });
  }
  const auto waiting = [&] {
    return std::any_of(readers.begin(), readers.end(), [](const auto& reader) {
      return reader->seen() < kSeen;
    });
  };
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(50);
  while ((generation < kAtLeast || waiting()) &&
         std::chrono::steady_clock::now() < deadline) {
    ++generation;
    publication.Publish(writer.Next(generation));
    published.store(generation);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const auto& reader : readers) {
    EXPECT_EQ(reader->wrong(), "");
    EXPECT_GE(reader->seen(), kSeen) << "of " << generation;
  }
}

TEST(FibCompilerThreads, EachBatchSeesOneGeneration) {
  Torture(Family::kIpv6);
  Torture(Family::kIpv4);
}

// Values that readers have not heard of are added beside those that they read.
TEST(FibCompilerThreads, EachBatchSeesOneGenerationWithLengths) {
  Torture(Family::kIpv6, {.prefix_lengths = true});
}

// The table is compiled in steps, in other memory, and takes that of before out
// of the hands of its readers.
TEST(FibCompilerThreads, EachBatchSeesOneGenerationWhilePacked) {
  Torture(Family::kIpv6, {}, AlwaysPacking(10));
}

// A history's versions, and the routes of each.
struct Versions {
  std::vector<std::shared_ptr<const Fib>> fibs;
  std::vector<std::vector<Route>> routes;
};

Versions MakeVersions(LiveTable& table, Family family, int count,
                      uint64_t seed) {
  History history({.family = family, .prefixes = 120, .seed = seed});
  Versions versions;
  for (int i = 0; i < count; ++i) {
    versions.fibs.push_back(table.Apply(history.NextBatch()));
    versions.routes.push_back(table.ModelRoutes());
  }
  return versions;
}

class FibVersions : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, FibVersions,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

TEST_P(FibVersions, DieInAnyOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    // Odd seeds: the compiler first.
    std::optional<LiveTable> table(
        std::in_place, GetParam(), absl::Span<const Route>(), FibOptions(),
        seed % 4 < 2 ? FibPacking() : AlwaysPacking(seed));
    Versions versions = MakeVersions(*table, GetParam(), 40, seed);
    if (seed % 2 == 1) table.reset();
    Random random(seed);
    while (!versions.fibs.empty()) {
      const size_t i = random.Below(versions.fibs.size());
      std::swap(versions.fibs[i], versions.fibs.back());
      std::swap(versions.routes[i], versions.routes.back());
      versions.fibs.pop_back();
      versions.routes.pop_back();
      if (!versions.fibs.empty()) {
        const size_t left = random.Below(versions.fibs.size());
        ASSERT_EQ(DifferencesAtBoundaries(*versions.fibs[left],
                                          versions.routes[left]),
                  "")
            << "seed " << seed << ", " << versions.fibs.size() << " left";
      }
    }
    if (table) {  // it still works
      MakeVersions(*table, GetParam(), 1, seed + 100);
      ASSERT_EQ(DifferencesAtBoundaries(*table->fib(), table->ModelRoutes()),
                "");
    }
  }
}

// Versions die on other threads while the compiler makes the next ones from
// them.
TEST_P(FibVersions, DieOnOtherThreads) {
  LiveTable table(GetParam(), {}, {}, AlwaysPacking(20));
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Versions versions = MakeVersions(table, GetParam(), 60, seed);
    std::thread reaper([dying = std::move(versions.fibs)]() mutable {
      while (!dying.empty()) dying.pop_back();
    });
    const Versions more = MakeVersions(table, GetParam(), 30, seed + 100);
    reaper.join();
    for (size_t i = 0; i < more.fibs.size(); ++i) {
      ASSERT_EQ(DifferencesAtBoundaries(*more.fibs[i], more.routes[i]), "");
    }
  }
}

// Lookups only read: many threads may read one FIB.
TEST(FibThreads, AllReadTheSameAnswers) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 2000});
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  const PackedProbes probes(Family::kIpv6,
                            SyntheticTrace(routes, Family::kIpv6, 1000, 1));
  const std::vector<NextHopId> expected =
      RightAnswers(routes, probes.addresses());
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        ASSERT_EQ(probes.Differences(*fib, expected), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace planb
