// SPDX-License-Identifier: Apache-2.0

// Connecting is a separate step, without a retry, so that an unreachable server
// differs from one that refuses a call.

#include "client/planbctl/session.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(std::string, server, "",
          "The server: unix:///path, host:port or [address]:port. If empty, "
          "the environment variable PLANB_SERVER; if that is unset, "
          "unix:///run/planb/planb.sock.");
ABSL_FLAG(
    std::string, tls_ca, "",
    "Use TLS, with these certificate authorities for the server: a file in "
    "PEM. If empty: the authorities that this host trusts if another TLS "
    "flag is given, otherwise plaintext.");
ABSL_FLAG(
    std::string, tls_cert, "",
    "The client's certificate, for a server that asks for one: a file in PEM.");
ABSL_FLAG(std::string, tls_key, "",
          "Private key of --tls_cert: a file in PEM.");
ABSL_FLAG(std::string, tls_server_name, "",
          "The name required in the server's certificate; empty: the host of "
          "--server.");

namespace planb::client {

std::string ServerTarget() {
  std::string target = absl::GetFlag(FLAGS_server);
  if (!target.empty()) return target;
  const char* environment = std::getenv("PLANB_SERVER");
  if (environment != nullptr && *environment != '\0') return environment;
  return "unix:///run/planb/planb.sock";
}

ChannelOptions WithFlags(ChannelOptions options) {
  TlsOptions tls = {.ca = absl::GetFlag(FLAGS_tls_ca),
                    .cert = absl::GetFlag(FLAGS_tls_cert),
                    .key = absl::GetFlag(FLAGS_tls_key),
                    .server_name = absl::GetFlag(FLAGS_tls_server_name)};
  if (!tls.ca.empty() || !tls.cert.empty() || !tls.key.empty() ||
      !tls.server_name.empty()) {
    options.tls = std::move(tls);
  }
  return options;
}

absl::Status CheckServerFlags() {
  return MakeChannel(ServerTarget(), WithFlags()).status();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToServer(
    const ChannelOptions& options) {
  return ConnectTo(ServerTarget(), options);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectTo(
    const std::string& target, const ChannelOptions& options) {
  auto channel = MakeChannel(target, WithFlags(options));
  if (!channel.ok()) return channel.status();
  const absl::Status connected = Connect(**channel, CallDeadline());
  if (!connected.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", target, ": ", connected.message(),
                     " (is the server running? is --server or PLANB_SERVER "
                     "right?)"));
  }
  return channel;
}

Deadline CallDeadline() {
  return Deadline::After(absl::GetFlag(FLAGS_timeout));
}

namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

Address Unmapped(const Address& address) {
  const bool mapped =
      address.family() == Family::kIpv6 && address.bits() >> 32 == 0xffff;
  return mapped ? Address::V4(static_cast<uint32_t>(address.bits())) : address;
}

void StopOnSignals() {
  for (int number : {SIGTERM, SIGINT}) {
    std::signal(number, [](int) { stop_requested = true; });
  }
}

const std::atomic<bool>& StopRequested() { return stop_requested; }

std::vector<absl::string_view> ChangeFlags(
    std::vector<absl::string_view> more) {
  std::vector<absl::string_view> flags = {
      "ack",     "ack_replicas", "expected_generation",
      "dry_run", "writer_epoch", "request_id"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

ExitCode PrintChange(const google::protobuf::Message& response) {
  output::Update update;
  update.set_dry_run(absl::GetFlag(FLAGS_dry_run));
  const PrintedFields fields = FieldsOf(update, FieldsOf(response));
  Print(fields,
        absl::StrCat(
            Fill("generation {generation} (visible: {visible_generation}[, "
                 "persisted: {persisted_generation}]): {added} added, "
                 "{changed} changed, {removed} removed",
                 fields),
            // Of routes only.
            TextOf(fields, "unchanged").empty()
                ? ""
                : Fill(", {unchanged} unchanged", fields),
            update.dry_run() ? " (dry run: nothing was changed)" : "", "\n"));
  return ExitCode::kOk;
}

absl::StatusOr<NextHopId> ParseNextHopId(absl::string_view text) {
  const auto id = planb::ParseNextHopId(absl::StripAsciiWhitespace(text));
  if (!id.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("next hop \"", absl::CHexEscape(text.substr(0, 64)),
                     "\" is not a number of 1..4294967294"));
  }
  return *id;
}

}  // namespace planb::client
