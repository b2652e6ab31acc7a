// The fuzz target without libFuzzer: over the corpus, over mutations of its
// files, and over random messages, always the same ones. A disagreement aborts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "proto/wire/testing/made_up_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace planb::wire {
namespace {

// Where Bazel puts it, seen from where it starts tests.
constexpr char kCorpus[] = "proto/wire/testing/wire_corpus";

// Exactly the octets, in a block of their own.
void RunFuzzer(const std::string& octets) {
  const std::vector<uint8_t> data(octets.begin(), octets.end());
  ASSERT_EQ(LLVMFuzzerTestOneInput(data.data(), data.size()), 0);
}

std::vector<std::string> Corpus() {
  std::vector<std::string> paths, inputs;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return inputs;
}

TEST(WireFuzzer, Corpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GT(corpus.size(), 10u) << "in " << kCorpus;
  for (const std::string& input : corpus) RunFuzzer(input);
}

TEST(WireFuzzer, MutationsOfTheCorpus) {
  Random random(1);
  for (const std::string& input : Corpus()) {
    for (int i = 0; i < 100; ++i) RunFuzzer(Mutation(input, random));
  }
}

TEST(WireFuzzer, RandomMessages) {
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::string input(1, static_cast<char>(random()));
    for (uint64_t n = Below(random, 8); n > 0; --n) {
      input += static_cast<char>(random());
    }
    RunFuzzer(input + RandomMessage(random));
  }
}

}  // namespace
}  // namespace planb::wire
