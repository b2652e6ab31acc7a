// SPDX-License-Identifier: Apache-2.0

// What a history says of each generation, beside who made it: when it was seen
// first, its digests, what watchers were sent, and what lists showed.

#ifndef PLANB_SERVER_TESTING_MODEL_EVIDENCE_H_
#define PLANB_SERVER_TESTING_MODEL_EVIDENCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/testing/model_history.h"
#include "server/testing/model_table.h"

namespace planb::server {

// Const after construction.
class ModelEvidence {
 public:
  // Keeps references to `history`.
  explicit ModelEvidence(const ModelHistory& history);

  // The newest generation anybody saw.
  uint64_t newest() const { return newest_; }

  // For each generation up to the newest, when it, or a later one, was seen
  // first: by then it was accepted.
  std::vector<Instant> AcceptedBy() const;

  // How what is known of `generation` differs from what it would be if it made
  // `after` of `before`; "" if it does not.
  std::string Compare(uint64_t generation, const ModelTable& before,
                      const ModelTable& after) const;

 private:
  struct Entry {
    std::vector<std::pair<std::string, const char*>> digests;  // who says so
    std::vector<Delta> deltas;
    std::vector<const ListCall*> lists;
  };

  void GatherWrites(const ModelHistory& history);
  void GatherReads(const ModelHistory& history);
  void GatherWatch(const WatchCall& watch);
  void See(uint64_t generation, Instant at);
  void AddDigest(uint64_t generation, const std::string& digest,
                 const char* who);

  std::map<uint64_t, Entry> entries_;
  std::map<uint64_t, Instant> seen_;  // when first
  uint64_t newest_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_EVIDENCE_H_
