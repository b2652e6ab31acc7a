// FIBs of the past, kept alive beside what each answered when it was new.

#ifndef PLANB_LPM_TESTING_OLD_VERSIONS_H_
#define PLANB_LPM_TESTING_OLD_VERSIONS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpm/fib.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/packed_probes.h"

namespace planb {

// Holds up to `most` versions. Thread-compatible.
class OldVersions {
 public:
  OldVersions(size_t most, uint64_t seed) : most_(most), random_(seed) {}

  // Keeps `fib`; where that is one too many, checks one of the others, drawn at
  // random, and lets it go: versions die in random order. "" or what differs.
  std::string Keep(std::shared_ptr<const Fib> fib,
                   std::shared_ptr<const PackedProbes> probes,
                   std::vector<NextHopId> expected) {
    std::string differences;
    if (kept_.size() == most_) differences = DropOne();
    kept_.push_back({std::move(fib), std::move(probes), std::move(expected)});
    return differences;
  }

  // Checks and lets go one version drawn at random. REQUIRES: !empty().
  std::string DropOne() {
    std::swap(kept_[random_.Below(kept_.size())], kept_.back());
    const Version version = std::move(kept_.back());
    kept_.pop_back();
    return version.probes->Differences(*version.fib, version.expected);
  }

  bool empty() const { return kept_.empty(); }

 private:
  struct Version {
    std::shared_ptr<const Fib> fib;
    std::shared_ptr<const PackedProbes> probes;
    std::vector<NextHopId> expected;
  };

  const size_t most_;
  Random random_;
  std::vector<Version> kept_;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_OLD_VERSIONS_H_
