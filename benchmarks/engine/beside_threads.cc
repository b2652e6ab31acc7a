#include "benchmarks/engine/beside_threads.h"

#include <chrono>
#include <memory>
#include <utility>

#include "benchmarks/engine/cores.h"
#include "benchmarks/engine/cycles.h"

namespace planb {

Reader::Reader(EpochSlot<Fib>& slot, const Trace& trace, size_t batch,
               const Kernel& kernel)
    : slot_(slot),
      trace_(trace),
      batch_(batch),
      kernel_(kernel),
      next_hops_(batch),
      thread_([this] { Run(); }) {}

Reader::~Reader() {
  stop_.store(true);
  thread_.join();
}

absl::Status Reader::Pin(int cpu) {
  return PinThread(thread_.native_handle(), cpu);
}

double Reader::cpu_seconds() { return CpuSeconds(thread_.native_handle()); }

void Reader::Run() {
  size_t at = 0;
  uint64_t done = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (at + batch_ > trace_.size()) at = 0;
    slot_.Enter().Lookup(trace_.at(at), batch_, next_hops_.data(), kernel_);
    slot_.Leave();
    at += batch_;
    done += batch_;
    done_.store(done, std::memory_order_relaxed);
  }
}

void Writer::Compile() {
  const uint64_t begin = Ticks();
  std::unique_ptr<const Fib> fib = table_.Compile();
  updates_.push_back(static_cast<double>(Ticks() - begin) /
                     TicksPerNanosecond());
  slot_.Publish(std::move(fib));
}

void Writer::Change(size_t count) {
  if (at_ + count > cycle_.size()) {
    // The odd rest of the cycle, as a batch of its own.
    if (at_ < cycle_.size()) Publish(cycle_.size() - at_);
    at_ = 0;
  }
  Publish(count);
}

size_t Writer::Run(const Load& load, uint64_t end) {
  const uint64_t begin = Ticks();
  if (load.sleeps()) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(
        static_cast<double>(end - begin) / TicksPerNanosecond())));
    return 0;
  }
  const double ticks_per_change =
      load.changes_per_s == 0 ? 0
                              : TicksPerNanosecond() * 1e9 / load.changes_per_s;
  size_t done = 0;
  uint64_t now;
  while ((now = Ticks()) < end) {
    if (load.kind == Load::kCompile) {
      Compile();
      ++done;
    } else if ((load.kind == Load::kChange || load.kind == Load::kEmpty) &&
               static_cast<double>(now - begin) >=
                   static_cast<double>(done) * ticks_per_change) {
      Change(load.kind == Load::kEmpty ? 0 : load.batch);
      done += load.batch;
    }
  }
  return done;
}

std::vector<double> Writer::TakeUpdates() {
  std::vector<double> updates = std::move(updates_);
  updates_.clear();
  // Enough for any segment: growing it would be timed.
  updates_.reserve(1 << 18);
  return updates;
}

void Writer::Publish(size_t count) {
  ChangeTimes times;
  slot_.Publish(
      table_.Change(absl::MakeConstSpan(cycle_).subspan(at_, count), times));
  updates_.push_back(times.update);
  at_ += count;
}

}  // namespace planb
