// SPDX-License-Identifier: Apache-2.0

// Process-wide settings of the libraries. Their defaults cost lookups a third
// of their throughput (measured), or crash the process while it exits.

#ifndef PLANB_BASE_PROCESS_SETUP_H_
#define PLANB_BASE_PROCESS_SETUP_H_

#include <malloc.h>
#include <openssl/crypto.h>

#include "absl/synchronization/mutex.h"

namespace planb {

// Call once, first in main().
inline void SetUpProcess() {
  // By default glibc maps and unmaps every large message. With these limits it
  // keeps freed memory, also that of a large table change: see
  // server/base/malloc_trim.h.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // Debian's abseil checks for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC's threads close connections even while the process exits. OpenSSL's
  // exit handler would free what they still use.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace planb

#endif  // PLANB_BASE_PROCESS_SETUP_H_
