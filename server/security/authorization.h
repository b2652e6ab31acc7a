// SPDX-License-Identifier: Apache-2.0

// Applies an authorization policy to calls: reads its file, watches it, decides
// on calls, counts and logs those it refuses.

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
#include "server/base/commit_reload.h"
#include "server/base/log.h"
#include "server/base/periodic.h"
#include "server/security/authorization_policy.h"

namespace planb::server {

struct AuthorizationOptions {
  // Empty: all calls are allowed.
  std::string policy_file;
  // How often to look at the file again.
  absl::Duration reload_interval = absl::Seconds(10);
};

// The text of the policy; "" if there is none. Errors: INVALID_ARGUMENT, naming
// the flag, if the policy or the interval cannot be used.
absl::StatusOr<std::string> ReadPolicy(const AuthorizationOptions& options);

// Owns the policy, and with one a thread that watches the file. The policy in
// force when a call begins decides on it; calls that have begun go on.
// Thread-safe.
class Authorizer {
 public:
  explicit Authorizer(AuthorizationOptions options);

  // Reads the policy, if there is one, and starts to watch its file.
  // Errors: those of ReadPolicy().
  absl::Status Start();

  bool enabled() const { return !options_.policy_file.empty(); }

  // True if the call is allowed. Counts and logs it otherwise.
  // REQUIRES: enabled(), and Start() was OK.
  bool Allow(const CallFacts& call);

  // Reads the file now, as the thread does. A valid policy comes into force.
  void Reload();

  // Reads the file now. Errors: why the policy cannot be used, which is counted
  // and logged once. REQUIRES: enabled(), and Start() was OK.
  absl::StatusOr<CommitReload> Prepare();

  // All series exist from the start, also without a policy.
  std::shared_ptr<prometheus::Collectable> collectable() const {
    return registry_;
  }

 private:
  enum Service { kLookup, kControl, kOther, kServices };

  static Service ServiceOf(absl::string_view path);
  std::shared_ptr<const AuthorizationPolicy> policy() const;
  absl::StatusOr<CommitReload> Parse(const std::string& text);

  const AuthorizationOptions options_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::array<prometheus::Counter*, kServices> denied_;
  prometheus::Counter* reload_errors_;
  LogLimit log_denied_{5};

  absl::Mutex reload_mutex_;
  std::string text_ ABSL_GUARDED_BY(reload_mutex_);  // of the policy in force
  std::string error_
      ABSL_GUARDED_BY(reload_mutex_);  // logged last; empty after a success
  mutable absl::Mutex mutex_;
  std::shared_ptr<const AuthorizationPolicy> policy_ ABSL_GUARDED_BY(mutex_);

  std::optional<Periodic> watcher_;  // last: uses the other members
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_AUTHORIZATION_H_
