// SPDX-License-Identifier: Apache-2.0

// A writer that updates as fast as it can, and readers beside it.
//
// In generation g every route of the table has next hop g, whichever routes
// there are, so what is right can be told from the answers alone: a batch must
// see one generation, no older than was published before the batch began, and
// what one reader sees must never go back. Made to run under TSan.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// Two simple ways to hand FIBs from a writer to readers. (The server's own way
// is tested there.)

// Readers are numbered 0..kReaders-1, one thread each.
constexpr size_t kReaders = 3;

// Readers announce what they read; the writer destroys what none does.
class HazardPublication {
 public:
  ~HazardPublication() {
    for (const Fib* fib : retired_) delete fib;
    delete current_.load();
  }

  void Publish(std::unique_ptr<const Fib> fib) {
    retired_.push_back(current_.exchange(fib.release()));
    std::erase_if(retired_, [this](const Fib* old) {
      for (const std::atomic<const Fib*>& hazard : hazards_) {
        if (hazard.load() == old) return false;
      }
      delete old;
      return true;
    });
  }

  template <typename Read>
  void WithFib(size_t reader, Read read) {
    // All orders are sequential: if this sees `fib` still current after its
    // hazard is stored, the writer retires it later, and then sees the hazard.
    const Fib* fib;
    do {
      fib = current_.load();
      hazards_[reader].store(fib);
    } while (current_.load() != fib);
    read(*fib);
    hazards_[reader].store(nullptr);
  }

 private:
  std::atomic<const Fib*> current_{nullptr};
  std::array<std::atomic<const Fib*>, kReaders> hazards_{};
  std::vector<const Fib*> retired_;
};

// The last to let go of a FIB destroys it: often a reader.
class SharedPublication {
 public:
  void Publish(std::unique_ptr<const Fib> fib) {
    std::shared_ptr<const Fib> next = std::move(fib);
    const std::lock_guard<std::mutex> lock(mutex_);
    current_.swap(next);
  }

  template <typename Read>
  void WithFib(size_t /*reader*/, Read read) {
    std::shared_ptr<const Fib> fib;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fib = current_;
    }
    read(*fib);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const Fib> current_;  // guarded by mutex_
};

// The writer continues until each reader has seen so many generations.
constexpr uint64_t kSeen = 200;
constexpr NextHopId kAtLeast = 1500;

// The routes of one family: some always there, some coming and going inside
// them, so that the structure changes its shape while the answers stay known.
class Writer {
 public:
  explicit Writer(Family family)
      : routes_(family), compiler_(family), random_(1) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      for (const Prefix& prefix : HardPrefixes(family, 60, seed)) {
        const bool covered = std::any_of(
            stable_.begin(), stable_.end(),
            [&](const Prefix& above) { return above.Covers(prefix); });
        if (prefix.length() < 8) continue;
        (covered ? passing_ : stable_).push_back(prefix);
      }
    }
    compiler_.Compile(routes_).value();
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
    return compiler_.Update(routes_, changed).value();
  }

 private:
  RouteSet routes_;
  FibCompiler compiler_;
  Random random_;
  std::vector<Prefix> stable_;
  std::vector<Prefix> passing_;
};

// Checks until told to stop; says what was wrong, or "".
template <typename Publication>
class Reader {
 public:
  Reader(size_t number, Publication& publication,
         const std::atomic<NextHopId>& published,
         const std::vector<Address>& probes)
      : number_(number),
        publication_(publication),
        published_(published),
        packed_(PackAs(WholeForm(probes.at(0).family()), probes)),
        answers_(probes.size()) {}

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
    publication_.WithFib(number_, [&](const Fib& fib) {
      fib.Lookup(packed_.data(), answers_.size(), answers_.data(), kernel);
    });
    const NextHopId generation = answers_[0];
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
  NextHopId last_ = 0;
  std::string wrong_;
  std::atomic<uint64_t> seen_{0};
};

template <typename Publication>
void Torture(Family family) {
  Writer writer(family);
  const std::vector<Address> probes = writer.Probes();
  Publication publication;
  std::atomic<NextHopId> published{0};
  std::atomic<bool> stop{false};
  NextHopId generation = 1;
  publication.Publish(writer.Next(generation));
  published.store(generation);

  std::vector<std::unique_ptr<Reader<Publication>>> readers;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<Reader<Publication>>(i, publication,
                                                            published, probes));
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

TEST(FibCompilerThreads, TheWriterDestroysOldVersions) {
  Torture<HazardPublication>(Family::kIpv6);
  Torture<HazardPublication>(Family::kIpv4);
}

TEST(FibCompilerThreads, ReadersDestroyOldVersions) {
  Torture<SharedPublication>(Family::kIpv6);
  Torture<SharedPublication>(Family::kIpv4);
}

}  // namespace
}  // namespace planb
