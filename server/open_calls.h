// The calls that are open on one connection, by the numbers of their streams:
// exactly, since whoever could end a call twice could have any number of them.

#ifndef PLANB_SERVER_OPEN_CALLS_H_
#define PLANB_SERVER_OPEN_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"

namespace planb::server {

// Thread-safe: one thread reads the connection while another writes it.
class OpenCalls {
 public:
  // False if it was open already, as where the client sends trailers.
  bool Open(uint32_t stream) {
    const std::lock_guard lock(mutex_);
    return answered_.emplace(stream, false).second;
  }

  // The server answers it.
  void Answer(uint32_t stream) {
    const std::lock_guard lock(mutex_);
    const auto it = answered_.find(stream);
    if (it != answered_.end()) it->second = true;
  }

  enum class Was { kNotOpen, kUnanswered, kAnswered };

  // Says what it was until now. Not open: it has ended before, or never was.
  Was End(uint32_t stream) {
    const std::lock_guard lock(mutex_);
    const auto it = answered_.find(stream);
    if (it == answered_.end()) return Was::kNotOpen;
    const Was was = it->second ? Was::kAnswered : Was::kUnanswered;
    answered_.erase(it);
    return was;
  }

  // Ends all of them, and returns how many there were.
  size_t Clear() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answered_, {}).size();
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<uint32_t, bool> answered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OPEN_CALLS_H_
