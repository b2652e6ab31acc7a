// The calls that are open on one connection, by the numbers of their streams:
// exactly, since whoever could end a call twice could have any number of them.

#ifndef PLANB_SERVER_OPEN_CALLS_H_
#define PLANB_SERVER_OPEN_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"

namespace planb::server {

// Thread-safe: one thread reads the connection while another writes it.
class OpenCalls {
 public:
  // False if it was open already, as where the client sends trailers.
  bool Open(uint32_t stream) {
    const std::lock_guard lock(mutex_);
    return streams_.insert(stream).second;
  }

  // False if it was not open: it has ended before, or never was.
  bool End(uint32_t stream) {
    const std::lock_guard lock(mutex_);
    return streams_.erase(stream) > 0;
  }

  // Ends all of them, and returns how many there were.
  size_t Clear() {
    const std::lock_guard lock(mutex_);
    return std::exchange(streams_, {}).size();
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_set<uint32_t> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OPEN_CALLS_H_
