// SPDX-License-Identifier: Apache-2.0

// A fuzz target without libFuzzer, for ordinary tests.

#ifndef PLANB_THIRD_PARTY_FUZZ_CORPUS_H_
#define PLANB_THIRD_PARTY_FUZZ_CORPUS_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace planb {

// True if the target takes exactly the bytes, in a block of their own. A check
// of the target that fails aborts.
inline bool RunFuzzTarget(const std::string& bytes) {
  const std::vector<uint8_t> data(bytes.begin(), bytes.end());
  return LLVMFuzzerTestOneInput(data.data(), data.size()) == 0;
}

// The inputs in the file at `path`, which fuzz_corpus.sh packed: a line each,
// "NAME BASE64". Empty if there is no such file or a line is no such line.
inline std::vector<std::string> ReadCorpus(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> inputs;
  for (std::string line; std::getline(file, line);) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos ||
        !absl::Base64Unescape(line.substr(blank + 1), &inputs.emplace_back())) {
      return {};
    }
  }
  return inputs;
}

}  // namespace planb

#endif  // PLANB_THIRD_PARTY_FUZZ_CORPUS_H_
