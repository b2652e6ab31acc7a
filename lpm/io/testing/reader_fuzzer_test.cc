// SPDX-License-Identifier: Apache-2.0

// Runs the fuzz target without libFuzzer: on the corpus and the fixtures, on
// each of their prefixes, and on mutations of them, the same ones in every run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "third_party/fuzz_corpus.h"

namespace planb {
namespace {

// Relative to the directory in which Bazel starts tests.
constexpr char kCorpus[] = "lpm/io/testdata/corpus.txt";
constexpr const char* kFixtures[] = {
    "lpm/io/testdata/bird.mrt",
    "lpm/io/testdata/bird_updates.mrt",
    "lpm/io/testdata/gobgp.mrt",
};

constexpr int kMutationsPerSeed = 200;

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = ReadCorpus(kCorpus);
  EXPECT_GT(seeds.size(), 10u) << "in " << kCorpus;
  for (const char* const path : kFixtures) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    seeds.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  // `bytes` with one to eight changes.
  std::string Mutate(std::string bytes) {
    for (size_t changes = 1 + Below(8); changes > 0; --changes) Change(bytes);
    return bytes;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  char Byte() {
    // Limits of lengths and counts are more frequent than other bytes.
    constexpr uint8_t kEdges[] = {0, 1, 4, 16, 32, 127, 128, 129, 255, '\n'};
    return static_cast<char>(Below(2) == 0 ? kEdges[Below(std::size(kEdges))]
                                           : Below(256));
  }

  void Change(std::string& bytes) {
    const size_t at = Below(bytes.size() + 1);
    const size_t length = std::min(bytes.size() - at, 1 + Below(40));
    switch (Below(6)) {
      case 0:  // another byte
        if (at < bytes.size()) bytes[at] = Byte();
        break;
      case 1:  // a flipped bit
        if (at < bytes.size()) {
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
        }
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:  // repeat a piece
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 4:
        bytes.insert(at, 1 + Below(4), Byte());
        break;
      case 5: {  // a piece of another seed
        const std::string& other = seeds_[Below(seeds_.size())];
        bytes.insert(at, other, Below(other.size() + 1), 1 + Below(60));
        break;
      }
    }
  }

  const std::vector<std::string> seeds_;
  std::mt19937_64 random_{20260730};
};

TEST(ReaderFuzzer, SeedsAndTheirPrefixes) {
  for (const std::string& seed : Seeds()) {
    for (size_t size = 0; size <= seed.size(); ++size) {
      // The one long seed is a line of blanks. It is cut at every byte around
      // multiples of 1,024, where its bound may be, and else at one in 31.
      const size_t past = size % 1024;
      if (size > 2048 && past > 8 && past < 1016 && past % 31 != 0) continue;
      EXPECT_TRUE(RunFuzzTarget(seed.substr(0, size)));
    }
  }
}

TEST(ReaderFuzzer, MutationsOfTheSeeds) {
  const std::vector<std::string> seeds = Seeds();
  Mutator mutator(seeds);
  for (const std::string& seed : seeds) {
    for (int i = 0; i < kMutationsPerSeed; ++i) {
      EXPECT_TRUE(RunFuzzTarget(mutator.Mutate(seed)));
    }
  }
}

}  // namespace
}  // namespace planb
