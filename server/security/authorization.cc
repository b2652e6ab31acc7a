// SPDX-License-Identifier: Apache-2.0

#include "server/security/authorization.h"

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/regular_file.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxLogged = 200;  // bytes of what a client chose

}  // namespace

absl::StatusOr<std::string> ReadPolicy(const AuthorizationOptions& options) {
  if (options.policy_file.empty()) return "";
  if (options.reload_interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--authorization_reload_interval must be positive");
  }
  absl::StatusOr<std::string> text =
      ReadRegularFile(options.policy_file, kMaxFileBytes);
  const absl::Status usable =
      text.ok() ? AuthorizationPolicy::Parse(*text).status() : text.status();
  if (usable.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      "--authorization_policy=", options.policy_file, ": ", usable.message()));
}

Authorizer::Authorizer(AuthorizationOptions options)
    : options_(std::move(options)),
      registry_(std::make_shared<prometheus::Registry>()) {
  auto& denied = prometheus::BuildCounter()
                     .Name("planb_authorization_denied_total")
                     .Help("Calls that the authorization policy denied.")
                     .Register(*registry_);
  denied_ = {&denied.Add({{"service", "lookup"}}),
             &denied.Add({{"service", "control"}}),
             &denied.Add({{"service", "other"}})};
  reload_errors_ =
      &prometheus::BuildCounter()
           .Name("planb_authorization_policy_errors_total")
           .Help(
               "Looks at the file of --authorization_policy that found no "
               "policy to use; the one before stayed in force.")
           .Register(*registry_)
           .Add({});
}

absl::Status Authorizer::Start() {
  if (!enabled()) return absl::OkStatus();
  absl::StatusOr<std::string> text = ReadPolicy(options_);
  if (!text.ok()) return text.status();
  const auto adopt = Parse(*text);
  if (!adopt.ok()) return adopt.status();
  (*adopt)();
  watcher_.emplace(options_.reload_interval, [this] { Reload(); });
  return absl::OkStatus();
}

void Authorizer::Reload() {
  const auto adopt = Prepare();
  if (adopt.ok()) (*adopt)();
}

absl::StatusOr<CommitReload> Authorizer::Prepare() {
  const absl::MutexLock lock(&reload_mutex_);
  const absl::StatusOr<std::string> text =
      ReadRegularFile(options_.policy_file, kMaxFileBytes);
  if (text.ok() && *text == text_) {
    error_.clear();
    return [] {};
  }
  auto adopt = text.ok() ? Parse(*text) : text.status();
  if (adopt.ok()) {
    error_.clear();
    return adopt;
  }
  reload_errors_->Increment();
  if (error_ == adopt.status().message()) return adopt;
  error_ = std::string(adopt.status().message());
  Log(LogLevel::kError,
      "authorization policy cannot be used, the old one stays",
      {{"file", options_.policy_file}, {"error", error_}});
  return adopt;
}

absl::StatusOr<CommitReload> Authorizer::Parse(const std::string& text) {
  absl::StatusOr<AuthorizationPolicy> read = AuthorizationPolicy::Parse(text);
  if (!read.ok()) return read.status();
  auto policy = std::make_shared<const AuthorizationPolicy>(*std::move(read));
  return [this, text, policy = std::move(policy)] {
    Log(LogLevel::kInfo, "authorization policy in force",
        {{"file", options_.policy_file}, {"name", policy->name()}});
    const absl::MutexLock reload_lock(&reload_mutex_);
    text_ = text;
    const absl::MutexLock lock(&mutex_);
    policy_ = policy;
  };
}

std::shared_ptr<const AuthorizationPolicy> Authorizer::policy() const {
  const absl::ReaderMutexLock lock(&mutex_);
  return policy_;
}

Authorizer::Service Authorizer::ServiceOf(absl::string_view path) {
  if (absl::StartsWith(path, "/planb.v1.RouteLookup/")) return kLookup;
  if (absl::StartsWith(path, "/planb.v1.RouteTable/")) return kControl;
  return kOther;
}

bool Authorizer::Allow(const CallFacts& call) {
  const std::shared_ptr<const AuthorizationPolicy> current = policy();
  const Verdict verdict = current->Judge(call);
  if (verdict.allowed) return true;
  denied_[ServiceOf(call.path)]->Increment();
  const std::optional<uint64_t> left_out = log_denied_.Admit();
  if (left_out.has_value()) {
    const std::string names = absl::StrJoin(call.principals, " ");
    Log(LogLevel::kWarning, "call denied",
        {{"path", call.path.substr(0, kMaxLogged)},
         {"principals", absl::string_view(names).substr(0, kMaxLogged)},
         {"policy", current->name()},
         {"rule", verdict.rule},
         {"not_logged", *left_out}});
  }
  return false;
}

}  // namespace planb::server
