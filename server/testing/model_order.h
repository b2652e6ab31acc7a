// SPDX-License-Identifier: Apache-2.0

// The one sequence of batches that a history must come from: which call made
// each generation, what the table was then, and between which instants it was
// accepted. Calls of unknown outcome find their place here, or have none.

#ifndef PLANB_SERVER_TESTING_MODEL_ORDER_H_
#define PLANB_SERVER_TESTING_MODEL_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/testing/model.h"

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

// What can make a generation: a call, or all calls of one request id.
struct Effect {
  // One that was answered, if there is one.
  const WriteCall* call = nullptr;
  // It took effect, if at all, between these.
  Instant begin = 0;
  Instant end = kNever;
  // The generation it made; 0: none.
  uint64_t made = 0;

  bool known() const { return call->outcome == WriteCall::Outcome::kDone; }
};

// Thread-compatible.
class ModelOrder {
 public:
  // Finds an order, and says in `fault` if there is none. Keeps references to
  // `history`.
  ModelOrder(const ModelHistory& history, std::string& fault);

  // The newest generation anybody saw.
  uint64_t newest() const { return evidence_.newest(); }
  // REQUIRES, as do all below: no fault; generation <= newest().
  const ModelTable& table(uint64_t generation) const {
    return tables_[generation];
  }
  uint64_t epoch(uint64_t generation) const { return epochs_[generation]; }
  // The generation was accepted between these instants.
  Instant earliest(uint64_t generation) const { return earliest_[generation]; }
  Instant latest(uint64_t generation) const { return latest_[generation]; }
  const std::vector<Effect>& effects() const { return effects_; }

  // The first and the last generation at which a call that lasted from `begin`
  // to `end` can have been judged.
  std::pair<uint64_t, uint64_t> Window(Instant begin, Instant end) const;

 private:
  void FindEffects(const ModelHistory& history);
  std::string Search(bool agree_with_answers);
  // Effects that may have made `generation`, the likeliest first.
  std::vector<size_t> Candidates(uint64_t generation) const;
  // "" and the next table if the effect can have made `generation`.
  std::string Fit(const Effect& effect, uint64_t generation,
                  bool agree_with_answers);
  // "" if `table` is what `generation` can have held when batches were answered
  // there that changed nothing.
  std::string Contradiction(const Effect& maker, uint64_t generation,
                            const ModelTable& table) const;
  void TightenLatest();

  const ModelEvidence evidence_;
  std::vector<Effect> effects_;
  std::multimap<uint64_t, size_t> known_;  // by the generation they were told
  std::vector<size_t> unknown_;
  std::vector<ModelTable> tables_;
  std::vector<uint64_t> epochs_;
  std::vector<Instant> earliest_;
  std::vector<Instant> latest_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_ORDER_H_
