// SPDX-License-Identifier: Apache-2.0

// Preloaded into a program, it shifts the wall clock: CLOCK_REALTIME is off by
// the nanoseconds in the file $PLANB_TEST_CLOCK. Waits for a time of that clock
// poll it every few milliseconds, so that they notice a jump as they would
// notice clock_settime. CLOCK_MONOTONIC is not changed.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPollInterval = 5'000'000;

std::atomic<int64_t>* shared_offset = nullptr;

__attribute__((constructor)) void ShareOffset() {
  const char* const path = getenv("PLANB_TEST_CLOCK");
  if (path == nullptr) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) abort();
  void* const page =
      mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) abort();
  shared_offset = static_cast<std::atomic<int64_t>*>(page);
}

int64_t Nanos(const timespec& time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec Timespec(int64_t nanos) {
  return {.tv_sec = nanos / kSecond, .tv_nsec = nanos % kSecond};
}

int RealClockGettime(clockid_t clock, timespec* out) {
  static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(
      dlsym(RTLD_NEXT, "clock_gettime"));
  return real(clock, out);
}

int64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return Nanos(now);
}

bool Jumps(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

// When to look again on the way to `deadline`, by CLOCK_MONOTONIC.
timespec NextLook(int64_t deadline) {
  const int64_t left = deadline - Now(CLOCK_REALTIME);
  return Timespec(Now(CLOCK_MONOTONIC) +
                  std::clamp(left, int64_t{0}, kPollInterval));
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const int status = RealClockGettime(clock, out);
  if (status == 0 && Jumps(clock) && shared_offset != nullptr) {
    *out = Timespec(Nanos(*out) + shared_offset->load());
  }
  return status;
}

int gettimeofday(timeval* out, void*) noexcept {
  const int64_t now = Now(CLOCK_REALTIME);
  *out = {.tv_sec = now / kSecond, .tv_usec = now % kSecond / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  const time_t now = Now(CLOCK_REALTIME) / kSecond;
  if (out != nullptr) *out = now;
  return now;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  constexpr unsigned kMonotonic = 2;  // glibc's mark of such a condition
  if ((condition->__data.__wrefs & kMonotonic) != 0) {
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
  }
  const int64_t deadline = Nanos(*until);
  if (deadline <= Now(CLOCK_REALTIME)) return ETIMEDOUT;
  const timespec look = NextLook(deadline);
  const int status =
      pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &look);
  if (status != ETIMEDOUT) return status;
  // Otherwise a spurious wake-up, which any condition variable may have.
  return deadline <= Now(CLOCK_REALTIME) ? ETIMEDOUT : 0;
}

// abseil waits by this.
long syscall(long number, ...) noexcept {
  static const auto real =
      reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  long a[6];
  va_list list;
  va_start(list, number);
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  const auto* const until = reinterpret_cast<const timespec*>(a[3]);
  const bool jumps = number == SYS_futex &&
                     (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
                     (a[1] & FUTEX_CLOCK_REALTIME) != 0 && until != nullptr;
  if (!jumps) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);

  const int64_t deadline = Nanos(*until);
  const timespec look = NextLook(deadline);
  // Without FUTEX_CLOCK_REALTIME the time is of CLOCK_MONOTONIC.
  const long status = real(number, a[0], a[1] & ~long{FUTEX_CLOCK_REALTIME},
                           a[2], &look, a[4], a[5]);
  if (status != 0 && errno == ETIMEDOUT && deadline > Now(CLOCK_REALTIME)) {
    errno = EINTR;
  }
  return status;
}

}  // extern "C"
