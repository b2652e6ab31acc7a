// SPDX-License-Identifier: Apache-2.0

// The listening socket of the pages over HTTP.

#ifndef PLANB_SERVER_OBSERVE_HTTP_SOCKET_H_
#define PLANB_SERVER_OBSERVE_HTTP_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// A bound, listening, non-blocking socket, the caller's to close. `address` is
// IPv4:PORT or [IPv6]:PORT, port 0 a free one; [::] takes IPv4 as well.
// Errors: INVALID_ARGUMENT (no such address), UNAVAILABLE (cannot be bound).
absl::StatusOr<int> ListenHttp(const std::string& address);

// Errors: INVALID_ARGUMENT if ListenHttp() would know no such address.
absl::Status CheckHttpAddress(absl::string_view address);

// The port that `socket` is bound to.
int PortOf(int socket);

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HTTP_SOCKET_H_
