// SPDX-License-Identifier: Apache-2.0

// A bound on the memory of changes that watches are sending.

#ifndef PLANB_SERVER_CONTROL_DELTA_PINS_H_
#define PLANB_SERVER_CONTROL_DELTA_PINS_H_

#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"

namespace planb::server {

// A watch holds the delta that it sends, or its messages, until its client has
// read them, also after the history has dropped them. This counts each once,
// however many watches send it, and gives up those that were begun first when
// all have more bytes than the limit. What a watch begins with may have more:
// then it is the only one. Thread-safe.
class DeltaPins {
  struct Entry {
    const void* held;
    size_t bytes;
    std::function<void()> end;  // null: called
  };
  using Entries = std::list<Entry>;

 public:
  explicit DeltaPins(size_t limit) : limit_(limit) {}

  // What a watch sends, until this is destroyed.
  class Pin {
   public:
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    // `end` ends the watch, on any thread and without waiting.
    Pin(DeltaPins& pins, const void* held, size_t bytes,
        std::function<void()> end)
        : pins_(pins), entry_(pins.Add(held, bytes, std::move(end))) {}
    ~Pin() { pins_.Remove(entry_); }

   private:
    DeltaPins& pins_;
    const Entries::iterator entry_;
  };

 private:
  Entries::iterator Add(const void* held, size_t bytes,
                        std::function<void()> end) {
    const MutexLock lock(mutex_);
    entries_.push_back({held, bytes, std::move(end)});
    for (Entry& oldest : entries_) {
      if (Bytes() <= limit_) break;
      if (oldest.held == held || oldest.end == nullptr) continue;
      std::exchange(oldest.end, nullptr)();
    }
    return std::prev(entries_.end());
  }
  void Remove(Entries::iterator entry) {
    const MutexLock lock(mutex_);
    entries_.erase(entry);
  }
  // Of the watches that go on.
  size_t Bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t bytes = 0;
    absl::flat_hash_set<const void*> counted;
    for (const Entry& entry : entries_) {
      if (entry.end == nullptr || !counted.insert(entry.held).second) continue;
      bytes += entry.bytes;
    }
    return bytes;
  }

  const size_t limit_;
  Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_DELTA_PINS_H_
