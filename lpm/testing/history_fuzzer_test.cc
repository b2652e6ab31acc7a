// SPDX-License-Identifier: Apache-2.0

// Runs the fuzz target without libFuzzer: on the corpus, on mutated beginnings
// of its inputs and on random bytes, the same ones in every run. A wrong answer
// aborts.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lpm/synthetic/random.h"
#include "third_party/fuzz_corpus.h"

namespace planb {
namespace {

// Relative to the directory in which Bazel starts tests.
constexpr char kCorpus[] = "lpm/testing/history_corpus.txt";

TEST(HistoryFuzzer, Corpus) {
  const std::vector<std::string> corpus = ReadCorpus(kCorpus);
  ASSERT_GT(corpus.size(), 10U) << "in " << kCorpus;
  for (const std::string& input : corpus) EXPECT_TRUE(RunFuzzTarget(input));
}

TEST(HistoryFuzzer, BeginningsAndMutationsOfTheCorpus) {
  Random random(1);
  for (const std::string& input : ReadCorpus(kCorpus)) {
    for (int i = 0; i < 100; ++i) {
      std::string other = input.substr(0, random.Below(input.size() + 1));
      for (uint64_t n = random.Below(8); n > 0 && !other.empty(); --n) {
        other[random.Below(other.size())] = static_cast<char>(random.Next());
      }
      EXPECT_TRUE(RunFuzzTarget(other));
    }
  }
}

TEST(HistoryFuzzer, RandomBytes) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random.Below(400), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Next());
    EXPECT_TRUE(RunFuzzTarget(bytes));
  }
}

}  // namespace
}  // namespace planb
