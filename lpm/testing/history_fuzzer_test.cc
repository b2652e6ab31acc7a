// The fuzz target without libFuzzer: over the corpus, over the beginnings of
// its files, and over random histories, always the same ones. A wrong answer
// aborts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lpm/synthetic/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace planb {
namespace {

// Where Bazel puts it, seen from where it starts tests.
constexpr char kCorpus[] = "lpm/testing/history_corpus";

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

TEST(HistoryFuzzer, Corpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GT(corpus.size(), 10U) << "in " << kCorpus;
  for (const std::string& input : corpus) RunFuzzer(input);
}

TEST(HistoryFuzzer, BeginningsAndMutationsOfTheCorpus) {
  Random random(1);
  for (const std::string& input : Corpus()) {
    for (int i = 0; i < 100; ++i) {
      std::string other = input.substr(0, random.Below(input.size() + 1));
      for (uint64_t n = random.Below(8); n > 0 && !other.empty(); --n) {
        other[random.Below(other.size())] = static_cast<char>(random.Next());
      }
      RunFuzzer(other);
    }
  }
}

TEST(HistoryFuzzer, RandomOctets) {
  Random random(2);
  for (int i = 0; i < 800; ++i) {
    std::string octets(random.Below(400), '\0');
    for (char& octet : octets) octet = static_cast<char>(random.Next());
    RunFuzzer(octets);
  }
}

}  // namespace
}  // namespace planb
