// SPDX-License-Identifier: Apache-2.0

// Locks that a compiler checks. The names are those of the standard library,
// with the annotations that clang's -Wthread-safety needs: std::mutex of
// libstdc++ has none. .ci/thread_safety.sh runs that analysis. CONTRIBUTING.md
// ("Locks") has the order in which locks are taken.
//
// std::mutex is underneath because ThreadSanitizer understands it however
// abseil was built, and because waits of absl::CondVar use the wall clock,
// which may be set.

#ifndef PLANB_BASE_MUTEX_H_
#define PLANB_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace planb {

// A std::mutex. Functions that run with it held are annotated with
// ABSL_EXCLUSIVE_LOCKS_REQUIRED, and may release it for a while with unlock()
// and lock(). Others hold it with a MutexLock.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex as long as it lives, but from unlock() to lock(). Of one
// thread; the mutex outlives it.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// A std::condition_variable. Waits release the mutex and hold it again when
// they return. A predicate runs with the mutex held and says so:
//
//   changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
//     return ended_;
//   });
//
// A function that its caller gives the mutex waits on the mutex itself.
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  template <typename... Until>
  void wait(MutexLock& lock, Until&&... predicate) {
    changed_.wait(lock.lock_, std::forward<Until>(predicate)...);
  }
  template <typename... Until>
  auto wait_for(MutexLock& lock, Until&&... time_and_predicate) {
    return changed_.wait_for(lock.lock_,
                             std::forward<Until>(time_and_predicate)...);
  }
  template <typename... Until>
  auto wait_until(MutexLock& lock, Until&&... time_and_predicate) {
    return changed_.wait_until(lock.lock_,
                               std::forward<Until>(time_and_predicate)...);
  }

  void wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  template <typename Time>
  std::cv_status wait_until(Mutex& mutex, const Time& time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(lock, time);
    lock.release();
    return status;
  }

 private:
  std::condition_variable changed_;
};

}  // namespace planb

#endif  // PLANB_BASE_MUTEX_H_
