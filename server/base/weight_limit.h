// SPDX-License-Identifier: Apache-2.0

// Bounds the total weight of operations in progress.

#ifndef PLANB_SERVER_BASE_WEIGHT_LIMIT_H_
#define PLANB_SERVER_BASE_WEIGHT_LIMIT_H_

#include <atomic>
#include <cstddef>
#include <utility>

namespace planb::server {

// Thread-safe, lock-free.
class WeightLimit {
 public:
  explicit WeightLimit(size_t limit) : limit_(limit) {}

  // A share of the limit. Its destructor returns it.
  class Share {
   public:
    Share(Share&& other) noexcept
        : limit_(std::exchange(other.limit_, nullptr)),
          weight_(other.weight_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(limit_, other.limit_);
      std::swap(weight_, other.weight_);
      return *this;
    }
    ~Share() {
      if (limit_ != nullptr) limit_->used_.fetch_sub(weight_);
    }
    // False if there was no room.
    bool granted() const { return limit_ != nullptr; }
    // Returns all but `weight`, if it is larger. REQUIRES: granted().
    void Shrink(size_t weight) {
      if (weight >= weight_) return;
      limit_->used_.fetch_sub(std::exchange(weight_, weight) - weight);
    }

   private:
    friend class WeightLimit;
    Share(WeightLimit* limit, size_t weight) : limit_(limit), weight_(weight) {}
    WeightLimit* limit_;
    size_t weight_;
  };

  // Granted if the total stays within the limit, or if no other share is out:
  // then any weight is granted.
  Share Take(size_t weight) {
    size_t used = used_.load();
    do {
      if (used > 0 && (weight > limit_ || used > limit_ - weight)) {
        return Share(nullptr, 0);
      }
    } while (!used_.compare_exchange_weak(used, used + weight));
    return Share(this, weight);
  }

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_WEIGHT_LIMIT_H_
