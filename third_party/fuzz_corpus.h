// A fuzz target without libFuzzer, for ordinary tests.

#ifndef PLANB_THIRD_PARTY_FUZZ_CORPUS_H_
#define PLANB_THIRD_PARTY_FUZZ_CORPUS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace planb {

// True if the target takes exactly the octets, in a block of their own. What
// it objects to aborts.
inline bool RunFuzzTarget(const std::string& octets) {
  const std::vector<uint8_t> data(octets.begin(), octets.end());
  return LLVMFuzzerTestOneInput(data.data(), data.size()) == 0;
}

// The contents of the files in `folder`, in the order of their names.
inline std::vector<std::string> ReadCorpus(const std::string& folder) {
  std::vector<std::string> paths, inputs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
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

}  // namespace planb

#endif  // PLANB_THIRD_PARTY_FUZZ_CORPUS_H_
