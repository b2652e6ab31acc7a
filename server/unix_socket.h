// Who can reach a Unix socket by its file: mode and owner, without a moment in
// which others can.
//
// gRPC makes the socket file, with the mode that the umask leaves of 0777, and
// accepts connections at once. So the mode must be right before, and the umask,
// which all threads share, is no place for it. Linux gives the file of a bound
// socket the mode of the socket itself, less the umask: RestrictSocket() takes
// all but the owner's bits from that before gRPC binds it, and only when the
// file has its owner does OpenSocketFile() add what else was asked for. In
// between, the one user who can connect is the server's own (and root).

#ifndef PLANB_SERVER_UNIX_SOCKET_H_
#define PLANB_SERVER_UNIX_SOCKET_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

struct SocketFileOptions {
  mode_t mode = 0660;
  // Unset: as the kernel made it.
  std::optional<uid_t> uid = std::nullopt;
  std::optional<gid_t> gid = std::nullopt;
};

// Reads --unix_socket_mode, octal, and --unix_socket_owner, UID[:GID] or empty.
// The owner must be allowed to write, which is to connect: a server that cannot
// would take the socket it left behind for another server's.
// Errors: INVALID_ARGUMENT, naming the flag.
absl::StatusOr<SocketFileOptions> ParseSocketFileOptions(
    absl::string_view mode, absl::string_view owner);

// To be called before the socket is bound. Sockets other than Unix sockets are
// left alone. False if the system refuses: then it must not be bound.
bool RestrictSocket(int fd);

// Gives the bound socket file its owner, then its mode. A link in its place is
// not followed.
// Errors: UNAVAILABLE, saying what could not be done.
absl::Status OpenSocketFile(const std::string& path,
                            const SocketFileOptions& options);

}  // namespace planb::server

#endif  // PLANB_SERVER_UNIX_SOCKET_H_
