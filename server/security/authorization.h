// SPDX-License-Identifier: Apache-2.0

// Keeps an authorization policy in force: reads its file, watches it, judges
// calls by it, and tells of those it refuses.

#ifndef PLANB_SERVER_SECURITY_AUTHORIZATION_H_
#define PLANB_SERVER_SECURITY_AUTHORIZATION_H_

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "server/base/log.h"
#include "server/base/periodic.h"
#include "server/security/authorization_policy.h"

namespace planb::server {

struct AuthorizationOptions {
  // Empty: everyone may call everything.
  std::string policy_file;
  // How often to look at the file again.
  absl::Duration reload_interval = absl::Seconds(10);
};

// Thread-safe. With a policy it has a thread of its own. A call is judged by
// the policy in force when it begins; calls that have begun go on.
class Authorizer {
 public:
  explicit Authorizer(AuthorizationOptions options);

  // Reads the policy, if there is to be one, and goes on watching its file.
  // Errors: INVALID_ARGUMENT, naming flag and file, if it cannot be used.
  absl::Status Start();

  bool enabled() const { return !options_.policy_file.empty(); }

  // Whether this call may go on. One that may not is counted and logged.
  // REQUIRES: enabled(), and Start() was OK.
  bool Allow(const CallFacts& call);

  // Looks at the file now, as the thread does: a policy that can be used comes
  // into force, any other is logged once and counted.
  void Reload();

  // All series exist from the start, without a policy too.
  std::shared_ptr<prometheus::Collectable> collectable() const {
    return registry_;
  }

 private:
  enum Service { kLookup, kControl, kOther, kServices };

  static Service ServiceOf(absl::string_view path);
  std::shared_ptr<const AuthorizationPolicy> policy() const;
  absl::Status Adopt(const std::string& text) ABSL_LOCKS_EXCLUDED(mutex_);

  const AuthorizationOptions options_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::array<prometheus::Counter*, kServices> denied_;
  prometheus::Counter* reload_errors_;
  LogLimit log_denied_{5};

  absl::Mutex reload_mutex_;
  std::string text_ ABSL_GUARDED_BY(reload_mutex_);   // of the policy in force
  std::string error_ ABSL_GUARDED_BY(reload_mutex_);  // logged last, if failing
  mutable absl::Mutex mutex_;
  std::shared_ptr<const AuthorizationPolicy> policy_ ABSL_GUARDED_BY(mutex_);

  std::optional<Periodic> watcher_;  // last: uses the rest
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_AUTHORIZATION_H_
