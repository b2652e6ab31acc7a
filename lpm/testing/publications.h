// Two simple ways to hand FIBs from a writer to readers, for tests of what FIBs
// share beneath. (The server's own way is tested there.)

#ifndef PLANB_LPM_TESTING_PUBLICATIONS_H_
#define PLANB_LPM_TESTING_PUBLICATIONS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lpm/fib.h"

namespace planb {

// Readers are numbered 0..kPublicationReaders-1, one thread each.
inline constexpr size_t kPublicationReaders = 3;

// Readers announce what they read; the writer destroys what none does.
class HazardPublication {
 public:
  ~HazardPublication() {
    for (const Fib* fib : retired_) delete fib;
    delete current_.load();
  }

  void Publish(std::unique_ptr<const Fib> fib) {
    retired_.push_back(current_.exchange(fib.release()));
    std::erase_if(retired_, [this](const Fib* old) {
      for (const std::atomic<const Fib*>& hazard : hazards_) {
        if (hazard.load() == old) return false;
      }
      delete old;
      return true;
    });
  }

  template <typename Read>
  void WithFib(size_t reader, Read read) {
    // All orders are sequential: if this sees `fib` still current after its
    // hazard is stored, the writer retires it later, and then sees the hazard.
    const Fib* fib;
    do {
      fib = current_.load();
      hazards_[reader].store(fib);
    } while (current_.load() != fib);
    read(*fib);
    hazards_[reader].store(nullptr);
  }

 private:
  std::atomic<const Fib*> current_{nullptr};
  std::array<std::atomic<const Fib*>, kPublicationReaders> hazards_{};
  std::vector<const Fib*> retired_;
};

// Whoever is last destroys: often a reader.
class SharedPublication {
 public:
  void Publish(std::unique_ptr<const Fib> fib) {
    std::shared_ptr<const Fib> next = std::move(fib);
    const std::lock_guard<std::mutex> lock(mutex_);
    current_.swap(next);
  }

  template <typename Read>
  void WithFib(size_t /*reader*/, Read read) {
    std::shared_ptr<const Fib> fib;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      fib = current_;
    }
    read(*fib);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const Fib> current_;  // guarded by mutex_
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_PUBLICATIONS_H_
