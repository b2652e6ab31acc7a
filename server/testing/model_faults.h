// SPDX-License-Identifier: Apache-2.0

// What a check finds: the first few of each kind, and how many there were.

#ifndef PLANB_SERVER_TESTING_MODEL_FAULTS_H_
#define PLANB_SERVER_TESTING_MODEL_FAULTS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace planb::server {

// Thread-compatible.
class ModelFaults {
 public:
  template <typename... Words>
  void Add(const char* kind, const Words&... words) {
    constexpr int kShown = 3;
    if (++counts_[kind] <= kShown) {
      texts_.push_back(absl::StrCat(kind, ": ", words...));
    }
  }

  std::vector<std::string> Take() {
    for (const auto& [kind, count] : counts_) {
      if (count > 1)
        texts_.push_back(absl::StrCat(kind, ": ", count, " times"));
    }
    return std::move(texts_);
  }

 private:
  std::map<std::string, int> counts_;
  std::vector<std::string> texts_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_FAULTS_H_
