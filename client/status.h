// SPDX-License-Identifier: Apache-2.0

// Errors of the server as absl::Status.
//
// A gRPC error carries its reason and the fields at fault in a binary trailer
// that people never see. Here they become part of the message,
//
//   2 fields are malformed [BAD_ROUTES; updates[17].prefix: host bits are set]
//
// and stay readable for programs through ErrorReason and RetryDelay.

#ifndef PLANB_CLIENT_STATUS_H_
#define PLANB_CLIENT_STATUS_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client {

// The same code; the message with reason and field violations appended as
// above. Details that do not parse are left out. OK becomes OK. A code that
// gRPC does not define becomes UNKNOWN.
absl::Status FromGrpc(const grpc::Status& status);

// The error of one batch of a stream, in the same form. A code that is no error
// (the server broke its contract) becomes INTERNAL.
absl::Status FromBatchError(const v1::BatchError& error);
absl::Status FromUpdateError(const v1::UpdateError& error);

// INTERNAL: the server did what the contract rules out; `how` says what.
absl::Status BrokenContract(absl::string_view how);

// google.rpc.ErrorInfo's reason, such as "TABLE_NOT_FOUND", of a status made
// by the functions above; empty if it has none: then no PlanB server spoke,
// but gRPC itself.
std::string ErrorReason(const absl::Status& status);

// How long the server asks to wait before trying again (google.rpc.RetryInfo);
// none if waiting does not help.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace planb::client

#endif  // PLANB_CLIENT_STATUS_H_
