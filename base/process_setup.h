// SPDX-License-Identifier: Apache-2.0

// What a program of ours tells the packaged libraries it is made of. Their
// defaults cost lookups a third of their throughput, measured, or a clean end.

#ifndef PLANB_BASE_PROCESS_SETUP_H_
#define PLANB_BASE_PROCESS_SETUP_H_

#include <malloc.h>
#include <openssl/crypto.h>

#include "absl/synchronization/mutex.h"

namespace planb {

// Once, first of all.
inline void SetUpProcess() {
  // glibc maps and unmaps every large message. Told to keep what it has, it
  // also keeps what a large change of a table took: see
  // server/base/malloc_trim.h.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // Debian's abseil looks for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC's threads close connections behind our back, also when the process
  // ends; OpenSSL would by then have given up what they use.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace planb

#endif  // PLANB_BASE_PROCESS_SETUP_H_
