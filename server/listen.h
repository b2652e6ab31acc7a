// Addresses to listen on: checked before the libraries that bind them, which
// say little about what is wrong.

#ifndef PLANB_SERVER_LISTEN_H_
#define PLANB_SERVER_LISTEN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace planb::server {

// True for "unix:///path".
bool IsUnixAddress(absl::string_view address);

// The path of such an address. REQUIRES: IsUnixAddress(address).
absl::string_view UnixSocketPath(absl::string_view address);

// Readies one gRPC address, unix:///PATH or HOST:PORT. Takes away the socket
// file that a killed server left behind.
// Errors: INVALID_ARGUMENT, also if the path is taken by what is no socket;
// UNAVAILABLE if a living server has the socket, or may have it for all that
// this process is allowed to see, or if its directory cannot be written.
absl::Status PrepareListenAddress(absl::string_view address);

// Refuses to listen in plaintext where other hosts can read along: on anything
// but Unix sockets, loopback addresses and "localhost". What is no address at
// all is left to PrepareListenAddress.
// Errors: INVALID_ARGUMENT.
absl::Status CheckPlaintext(absl::Span<const std::string> addresses);

}  // namespace planb::server

#endif  // PLANB_SERVER_LISTEN_H_
