// SPDX-License-Identifier: Apache-2.0

// Runs the fuzz target without libFuzzer: on the corpus, on mutations of it and
// on random messages, the same ones in every run. A disagreement aborts.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/wire/testing/made_up_messages.h"
#include "third_party/fuzz_corpus.h"

namespace planb::wire {
namespace {

// Relative to the directory in which Bazel starts tests.
constexpr char kCorpus[] = "proto/wire/testing/wire_corpus.txt";

TEST(WireFuzzer, Corpus) {
  const std::vector<std::string> corpus = ReadCorpus(kCorpus);
  ASSERT_GT(corpus.size(), 10u) << "in " << kCorpus;
  for (const std::string& input : corpus) EXPECT_TRUE(RunFuzzTarget(input));
}

TEST(WireFuzzer, MutationsOfTheCorpus) {
  Random random(1);
  for (const std::string& input : ReadCorpus(kCorpus)) {
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(RunFuzzTarget(Mutation(input, random)));
  }
}

TEST(WireFuzzer, RandomMessages) {
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string input(1, static_cast<char>(random()));
    for (uint64_t n = Below(random, 8); n > 0; --n) {
      input += static_cast<char>(random());
    }
    EXPECT_TRUE(RunFuzzTarget(input + RandomMessage(random)));
  }
}

}  // namespace
}  // namespace planb::wire
