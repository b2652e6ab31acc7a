// Runs the fuzz target without libFuzzer: over every input of the corpus that
// the command line names first and over the files after it, over each of their
// beginnings, and over mutations of them, always the same ones.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "third_party/fuzz_corpus.h"

namespace {

constexpr int kMutationsPerFile = 200;

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  // `octets` with one to eight changes.
  std::string Mutate(std::string octets) {
    for (size_t changes = 1 + Below(8); changes > 0; --changes) Change(octets);
    return octets;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  char Octet() {
    // The edges of lengths and counts more often than others.
    constexpr uint8_t kEdges[] = {0, 1, 4, 16, 32, 127, 128, 129, 255, '\n'};
    return static_cast<char>(Below(2) == 0 ? kEdges[Below(std::size(kEdges))]
                                           : Below(256));
  }

  void Change(std::string& octets) {
    const size_t at = Below(octets.size() + 1);
    const size_t length = std::min(octets.size() - at, 1 + Below(40));
    switch (Below(6)) {
      case 0:  // another octet
        if (at < octets.size()) octets[at] = Octet();
        break;
      case 1:  // a flipped bit
        if (at < octets.size()) {
          octets[at] = static_cast<char>(octets[at] ^ (1 << Below(8)));
        }
        break;
      case 2:
        octets.erase(at, length);
        break;
      case 3:  // repeat a piece
        octets.insert(at, octets.substr(at, length));
        break;
      case 4:
        octets.insert(at, 1 + Below(4), Octet());
        break;
      case 5: {  // a piece of another seed
        const std::string& other = seeds_[Below(seeds_.size())];
        octets.insert(at, other, Below(other.size() + 1), 1 + Below(60));
        break;
      }
    }
  }

  const std::vector<std::string> seeds_;
  std::mt19937_64 random_{20260730};
};

void Run(const std::string& octets) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(octets.data()),
                         octets.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds;
  if (argc > 1) seeds = planb::ReadCorpus(argv[1]);
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return EXIT_FAILURE;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s CORPUS SEED...\n", argv[0]);
    return EXIT_FAILURE;
  }
  Mutator mutator(seeds);
  size_t runs = 0;
  for (const std::string& seed : seeds) {
    for (size_t size = 0; size <= seed.size(); ++size, ++runs) {
      Run(seed.substr(0, size));
    }
    for (int i = 0; i < kMutationsPerFile; ++i, ++runs) {
      Run(mutator.Mutate(seed));
    }
  }
  std::printf("%zu seeds, %zu runs\n", seeds.size(), runs);
  return EXIT_SUCCESS;
}
