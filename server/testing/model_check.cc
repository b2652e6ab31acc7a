// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/testing/model_faults.h"
#include "server/testing/model_order.h"
#include "server/testing/model_reads.h"

namespace planb::server {
namespace {

using Kind = WriteCall::Kind;
using Outcome = WriteCall::Outcome;

// What else went on while a call did, and until a server died soon after: the
// writes that overlap, but for some where there are many.
std::string Around(const ModelHistory& history, const WriteCall& call) {
  constexpr Instant kSoon = 100'000'000;
  constexpr int kMax = 8;
  std::string text;
  for (const ServerLife& life : history.lives) {
    if (life.end >= call.begin && life.end <= call.end + kSoon) {
      absl::StrAppend(&text, "\n  a server was dead at ", life.end);
    }
  }
  int shown = 0;
  for (const WriteCall& other : history.writes) {
    if (&other == &call || other.begin > call.end || other.end < call.begin) {
      continue;
    }
    if (++shown > kMax) break;
    absl::StrAppend(&text, "\n  beside ", Describe(other));
  }
  return text;
}

// The writes: those that made no generation, and what binds several of them.
class WriteCheck {
 public:
  WriteCheck(const ModelHistory& history, const ModelOrder& order,
             ModelFaults& faults)
      : history_(history), order_(order), faults_(faults) {}

  void Run() {
    GatherEpochs();
    for (const Effect& effect : order_.effects()) {
      if (effect.known() && effect.made == 0) CheckNoChange(effect);
      if (effect.made != 0 && !effect.call->batch.request_id.empty()) {
        named_[effect.call->batch.request_id] = effect.made;
      }
    }
    for (const WriteCall& call : history_.writes) {
      if (call.outcome == Outcome::kRefused) {
        CheckRefusal(call);
      } else if (call.outcome == Outcome::kDone) {
        if (call.batch.validate_only) {
          CheckNoChange({&call, call.begin, call.end, 0});
        }
        CheckNamed(call);
        CheckStream(call);
      }
    }
  }

 private:
  // When which epoch was surely in force.
  void GatherEpochs() {
    for (const WriteCall& call : history_.writes) {
      if (call.outcome != Outcome::kDone || call.batch.validate_only) continue;
      sure_epochs_.emplace_back(call.end, call.batch.writer_epoch);
    }
    std::sort(sure_epochs_.begin(), sure_epochs_.end());
    for (size_t i = 1; i < sure_epochs_.size(); ++i) {
      sure_epochs_[i].second =
          std::max(sure_epochs_[i].second, sure_epochs_[i - 1].second);
    }
  }

  // Whether a call that was judged after `begin`, and not fenced, should have
  // been.
  void CheckFence(const WriteCall& call, Instant begin) {
    const auto after =
        std::lower_bound(sure_epochs_.begin(), sure_epochs_.end(),
                         std::pair(begin, uint64_t{0}));
    if (after == sure_epochs_.begin()) return;
    const uint64_t epoch = std::prev(after)->second;
    if (epoch > call.batch.writer_epoch) {
      faults_.Add("fence", Describe(call), " although epoch ", epoch,
                  " was in force");
    }
  }

  // An answered call that made no generation was judged at the one it names.
  void CheckNoChange(const Effect& effect) {
    const WriteCall& call = *effect.call;
    const auto fault = [&](const auto&... why) {
      faults_.Add("answer", Describe(call), ": ", why...);
    };
    if (!call.batch.validate_only &&
        call.counts.added + call.counts.changed + call.counts.removed > 0) {
      return fault("another batch made that generation");
    }
    CheckFence(call, effect.begin);
    const auto [first, last] = order_.Window(effect.begin, effect.end);
    const uint64_t generation = call.generation;
    if (generation < first || generation > last) {
      return fault("can only have seen ", first, "..", last,
                   Around(history_, call));
    }
    const uint64_t epoch = call.batch.writer_epoch;
    if (epoch < order_.epoch(generation)) {
      fault("should be fenced by ", order_.epoch(generation));
    }
    if (!call.batch.validate_only && generation < order_.newest() &&
        order_.epoch(generation + 1) < epoch) {
      fault("an older writer made the next generation");
    }
    const ModelResult model =
        ApplyToModel(order_.table(generation), generation, call.batch);
    if (!model.refusals.empty()) {
      return fault("should be refused for ", *model.refusals.begin());
    }
    if (!call.batch.validate_only && model.counts.Any()) {
      return fault("should have made a generation");
    }
    const std::string differs = CompareCounts(call, model.counts);
    if (!differs.empty()) fault(differs);
  }

  // Some state that it may have met must be a reason.
  void CheckRefusal(const WriteCall& call) {
    const auto fault = [&](const auto&... why) {
      faults_.Add("refusal", Describe(call), ": ", why...);
    };
    if (call.reason == "DRAINING") {
      const bool drained = std::any_of(
          history_.lives.begin(), history_.lives.end(), [&](const auto& life) {
            return life.drain <= call.end && call.begin <= life.end;
          });
      if (!drained) fault("no server drained");
      return;
    }
    const auto first = named_.find(call.batch.request_id);
    if (first != named_.end() && order_.latest(first->second) < call.begin) {
      return fault("a repeat; generation ", first->second, " has it");
    }
    const uint64_t epoch = call.batch.writer_epoch;
    if (call.reason == "WRITER_FENCED") {
      const bool taken_over = std::any_of(
          history_.writes.begin(), history_.writes.end(),
          [&](const WriteCall& other) {
            return other.outcome != Outcome::kRefused &&
                   !other.batch.validate_only && other.begin <= call.end &&
                   other.batch.writer_epoch > epoch;
          });
      if (!taken_over) fault("nobody has taken over");
      return;
    }
    CheckFence(call, call.begin);
    const auto [from, to] = order_.Window(call.begin, call.end);
    for (uint64_t g = from; g <= to; ++g) {
      if (ApplyToModel(order_.table(g), g, call.batch)
              .refusals.count(call.reason) > 0) {
        return;
      }
    }
    fault("none of the generations ", from, "..", to, " is a reason",
          Around(history_, call));
  }

  // Repeats get the first answer.
  void CheckNamed(const WriteCall& call) {
    if (call.batch.request_id.empty()) return;
    const auto [it, fresh] = first_.emplace(call.batch.request_id, &call);
    const WriteCall& first = *it->second;
    if (call.generation != first.generation || !(call.counts == first.counts) ||
        call.digest != first.digest) {
      faults_.Add("repeat", Describe(call), " was first told ",
                  Describe(first));
    }
  }

  // The batches of a stream are judged in order.
  void CheckStream(const WriteCall& call) {
    if (call.stream == 0) return;
    uint64_t& last = streams_[call.stream];
    if (call.generation < last && call.batch.request_id.empty()) {
      faults_.Add("stream", Describe(call), " after generation ", last);
    }
    last = std::max(last, call.generation);
  }

  const ModelHistory& history_;
  const ModelOrder& order_;
  ModelFaults& faults_;
  std::vector<std::pair<Instant, uint64_t>> sure_epochs_;
  std::map<std::string, uint64_t> named_;  // the generations they made
  std::map<std::string, const WriteCall*> first_;
  std::map<int, uint64_t> streams_;
};

}  // namespace

std::vector<std::string> CheckHistory(const ModelHistory& history) {
  ModelFaults faults;
  for (const std::string& surprise : history.surprises) {
    faults.Add("surprise", surprise);
  }
  std::string no_order;
  const ModelOrder order(history, no_order);
  if (!no_order.empty()) {
    faults.Add("order", no_order);
    return faults.Take();
  }
  WriteCheck(history, order, faults).Run();
  CheckReads(history, order, faults);
  return faults.Take();
}

}  // namespace planb::server
