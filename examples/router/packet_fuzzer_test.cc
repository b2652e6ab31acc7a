// SPDX-License-Identifier: Apache-2.0

// Runs the fuzz target without libFuzzer: on the corpus and on mutations of it,
// the same ones in every run. A disagreement aborts.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "third_party/fuzz_corpus.h"

namespace planb::router {
namespace {

// Relative to the directory in which Bazel starts tests.
constexpr char kCorpus[] = "examples/router/packet_corpus.txt";

TEST(PacketFuzzer, Corpus) {
  const std::vector<std::string> corpus = ReadCorpus(kCorpus);
  ASSERT_GT(corpus.size(), 30U) << "in " << kCorpus;
  for (const std::string& input : corpus) EXPECT_TRUE(RunFuzzTarget(input));
}

TEST(PacketFuzzer, MutationsOfTheCorpus) {
  std::mt19937 random(1);
  for (const std::string& input : ReadCorpus(kCorpus)) {
    for (int i = 0; i < 200; ++i) {
      std::string mutation = input;
      for (size_t n = 1 + random() % 4; n > 0; --n) {
        mutation[random() % mutation.size()] = static_cast<char>(random());
      }
      if (random() % 4 == 0) mutation.resize(1 + random() % mutation.size());
      EXPECT_TRUE(RunFuzzTarget(mutation));
    }
  }
}

}  // namespace
}  // namespace planb::router
