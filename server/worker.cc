#include "server/worker.h"

#include <utility>

namespace planb::server {

Worker::Worker(size_t max_weight)
    : max_weight_(max_weight), thread_([this] { Loop(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool Worker::Post(size_t weight, Job job) {
  const std::lock_guard lock(mutex_);
  if (weight_ > 0 && weight_ + weight > max_weight_) return false;
  weight_ += weight;
  posted_.push_back({weight, std::move(job)});
  changed_.notify_one();
  return true;
}

void Worker::Loop() {
  std::unique_lock lock(mutex_);
  while (!posted_.empty() || !stopping_) {
    if (posted_.empty()) {
      changed_.wait(lock);
      continue;
    }
    Posted next = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    next.job();
    next.job = nullptr;  // what it holds dies without the lock
    lock.lock();
    weight_ -= next.weight;
  }
}

}  // namespace planb::server
