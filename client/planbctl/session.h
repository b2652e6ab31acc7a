// SPDX-License-Identifier: Apache-2.0

// The parts that commands share: the server and its timeout, signals, and the
// conditions and answers of changes.

#ifndef PLANB_CLIENT_PLANBCTL_SESSION_H_
#define PLANB_CLIENT_PLANBCTL_SESSION_H_

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "client/channel.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// --server, else PLANB_SERVER, else the default socket.
std::string ServerTarget();

// `options` with TLS, if a TLS flag is given.
ChannelOptions WithFlags(ChannelOptions options = {});

// OK if a channel to the server can be made.
// Errors: INVALID_ARGUMENT for a malformed target or an unusable TLS file.
absl::Status CheckServerFlags();

// A channel to the server, connected within --timeout.
// Errors: UNAVAILABLE if it cannot be reached; those of CheckServerFlags, which
// main() has excluded before a command runs.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToServer(
    const ChannelOptions& options = {});

// The same, to another server, with the same TLS flags.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectTo(
    const std::string& target, const ChannelOptions& options = {});

// The deadline of a call made now: --timeout from now.
Deadline CallDeadline();

// The IPv4 address that an IPv4-mapped one (RFC 4291 section 2.5.5.2) stands
// for; every other address as it is. For text of what packets had: programs
// with one socket for both families write IPv4 addresses so, and no IPv6 packet
// has such an address, so that an IPv6 route would be a wrong one.
Address Unmapped(const Address& address);

// Makes SIGTERM and SIGINT set StopRequested instead of ending the process, so
// that a command can report what it has measured.
void StopOnSignals();
const std::atomic<bool>& StopRequested();

// Names of the flags that SetConditions reads, and `more`.
std::vector<absl::string_view> ChangeFlags(
    std::vector<absl::string_view> more = {});

// Sets the fields of all changes: table, ack, conditions, request id.
template <typename Request>
void SetConditions(Request& request) {
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_ack(absl::GetFlag(FLAGS_ack).value);
  request.set_ack_replicas(absl::GetFlag(FLAGS_ack_replicas));
  if (const auto expected = absl::GetFlag(FLAGS_expected_generation)) {
    request.set_expected_generation(*expected);
  }
  request.set_validate_only(absl::GetFlag(FLAGS_dry_run));
  request.set_writer_epoch(absl::GetFlag(FLAGS_writer_epoch));
  request.set_request_id(absl::GetFlag(FLAGS_request_id));
}

// Prints the generations and counts of any answer to a change. Returns kOk.
ExitCode PrintChange(const google::protobuf::Message& response);

// Connects, calls `call(channel)`, which returns an absl::StatusOr, and passes
// its value to `show`.
template <typename Call, typename Show>
ExitCode CallServer(Call call, Show show) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto answer = call(*channel);
  if (!answer.ok()) return Fail(answer.status());
  return show(*answer);
}

// The id of a next hop or group, in the form of files; blanks may be around it.
// Errors: INVALID_ARGUMENT, with the text.
absl::StatusOr<NextHopId> ParseNextHopId(absl::string_view text);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_SESSION_H_
