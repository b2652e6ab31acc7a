// SPDX-License-Identifier: Apache-2.0

// The one sequence of batches that explains a history: which call made each
// generation, the table at that generation, and the instants between which it
// was accepted. Also decides which calls of unknown outcome took effect.

#ifndef PLANB_SERVER_TESTING_MODEL_ORDER_H_
#define PLANB_SERVER_TESTING_MODEL_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/testing/model.h"

namespace planb::server {

// What a history says of each generation, apart from the calls that may have
// made it: when it was first seen, its digests, the deltas of watches, the
// lists. Constant after construction.
class ModelEvidence {
 public:
  // REQUIRES: `history` outlives it.
  explicit ModelEvidence(const ModelHistory& history);

  // The newest generation that was seen.
  uint64_t newest() const { return newest_; }

  // For each generation up to the newest, the time at which it or a later one
  // was first seen: it was accepted by then.
  std::vector<Instant> AcceptedBy() const;

  // How the evidence of `generation` contradicts a batch that turned `before`
  // into `after`; "" if it does not.
  std::string Compare(uint64_t generation, const ModelTable& before,
                      const ModelTable& after) const;

  // Does the same for lookups, which take longer. All of one generation are
  // alike, or the check of each tells.
  std::string CompareLookups(uint64_t generation,
                             const ModelTable& after) const;

 private:
  struct Entry {
    std::vector<std::pair<std::string, const char*>>
        digests;  // and their source
    std::vector<Delta> deltas;
    std::set<bool> complete;  // of the table
    std::vector<const ListCall*> lists;
    std::vector<const ObjectsCall*> objects;
    const LookupCall* lookup = nullptr;    // the first
    const ExplainCall* explain = nullptr;  // the first
  };

  void GatherWrites(const ModelHistory& history);
  void GatherReads(const ModelHistory& history);
  void GatherWatch(const WatchCall& watch);
  void See(uint64_t generation, Instant at);
  void AddDigest(uint64_t generation, const std::string& digest,
                 const char* source);

  const std::vector<Address>& probes_;
  std::map<uint64_t, Entry> entries_;
  std::map<uint64_t, Instant> seen_;  // first
  uint64_t newest_ = 0;
};

// A possible maker of a generation: a call, or all calls of one request id.
struct Effect {
  // An answered call if there is one.
  const WriteCall* call = nullptr;
  // The instants between which it took effect, if at all. What the store
  // refused can only have done so at the restart after that.
  Instant begin = 0;
  Instant end = kNever;
  // The generation that it made; 0: none.
  uint64_t made = 0;

  bool known() const { return call->outcome == WriteCall::Outcome::kDone; }
};

// Thread-compatible.
class ModelOrder {
 public:
  // Finds an order; if there is none, `fault` says why. REQUIRES: `history`
  // outlives it.
  ModelOrder(const ModelHistory& history, std::string& fault);

  // The newest generation that was seen.
  uint64_t newest() const { return evidence_.newest(); }
  // All below REQUIRE: no fault; generation <= newest().
  const ModelTable& table(uint64_t generation) const {
    return tables_[generation];
  }
  uint64_t epoch(uint64_t generation) const { return epochs_[generation]; }
  // The generation was accepted between these instants.
  Instant earliest(uint64_t generation) const { return earliest_[generation]; }
  Instant latest(uint64_t generation) const { return latest_[generation]; }
  const std::vector<Effect>& effects() const { return effects_; }

  // The generations after the newest that a call which ended at `end` may have
  // met: one or two batches of unknown outcome, just before the table was
  // deleted.
  std::vector<std::pair<uint64_t, ModelTable>> Unseen(Instant end) const;

  // The first and the last generation at which the server can have judged a
  // call that lasted from `begin` to `end`.
  std::pair<uint64_t, uint64_t> Window(Instant begin, Instant end) const;

 private:
  void FindEffects(const ModelHistory& history);
  std::string Search(bool agree_with_answers);
  // Effects that may have made `generation`, the likeliest first.
  std::vector<size_t> Candidates(uint64_t generation) const;
  // Adds the next table and returns "" if the effect can have made
  // `generation`; else why not.
  std::string Fit(const Effect& effect, uint64_t generation,
                  bool agree_with_answers);
  // "" if batches that changed nothing at `generation` agree with `table`; else
  // the one that does not.
  std::string Contradiction(const Effect& maker, uint64_t generation,
                            const ModelTable& table) const;
  void TightenLatest();

  const Instant deleted_;
  const ModelEvidence evidence_;
  std::vector<Effect> effects_;
  std::multimap<uint64_t, size_t> known_;  // by the generation in the answer
  std::vector<size_t> unknown_;
  std::vector<ModelTable> tables_;
  std::vector<uint64_t> epochs_;
  std::vector<Instant> earliest_;
  std::vector<Instant> latest_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_ORDER_H_
