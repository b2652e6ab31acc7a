// SPDX-License-Identifier: Apache-2.0

// Addresses to listen on, and the sockets bound to them.
//
// The file of a Unix socket has its mode and owner before the socket listens.
// Until then the kernel refuses every connection, so no client connects by a
// mode that is about to change.

#ifndef PLANB_SERVER_NET_LISTEN_H_
#define PLANB_SERVER_NET_LISTEN_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace planb::server {

// True for "unix:///path".
bool IsUnixAddress(absl::string_view address);

// The path of such an address. REQUIRES: IsUnixAddress(address).
absl::string_view UnixSocketPath(absl::string_view address);

// Errors: INVALID_ARGUMENT if `address` is neither unix:///PATH, as long as a
// socket's may be, nor HOST:PORT. Does not look whether it can be bound.
absl::Status CheckAddress(absl::string_view address);

// Refuses plaintext on addresses that other hosts can reach: all but Unix
// sockets, loopback addresses and "localhost". Ignores malformed addresses,
// which Listener::Open refuses.
// Errors: INVALID_ARGUMENT.
absl::Status CheckPlaintext(absl::Span<const std::string> addresses);

// The file of a Unix socket.
struct SocketFileOptions {
  mode_t mode = 0660;
  // Unset: not changed.
  std::optional<uid_t> uid = std::nullopt;
  std::optional<gid_t> gid = std::nullopt;
};

// Reads --unix_socket_mode, octal, and --unix_socket_owner, UID[:GID] or empty.
// The mode must let the owner write, which means connect: a server that cannot
// connect to a socket that it left behind takes it for another server's.
// Errors: INVALID_ARGUMENT, naming the flag.
absl::StatusOr<SocketFileOptions> ParseSocketFileOptions(
    absl::string_view mode, absl::string_view owner);

// The listening sockets of one address, non-blocking and closed on exec. Owns
// them and the file of a Unix socket. Its destructor removes the file unless
// another file has taken its place. Thread-compatible.
class Listener {
 public:
  // `address` is unix:///PATH or HOST:PORT; port 0 takes a free one. A host
  // name gets a socket for each of its addresses. A wildcard address ([::] or
  // 0.0.0.0) gets one for both families if the host has IPv6. The socket file
  // that a killed server left behind is removed first.
  // Errors: INVALID_ARGUMENT (malformed address; the file exists and is no
  // socket), UNAVAILABLE (another server has the address, or this process may
  // not find out; the socket cannot be bound; its file cannot get its owner or
  // mode).
  static absl::StatusOr<Listener> Open(const std::string& address,
                                       const SocketFileOptions& file = {});

  Listener(Listener&& other) noexcept { *this = std::move(other); }
  Listener& operator=(Listener&& other) noexcept;
  ~Listener() { Close(); }

  const std::vector<int>& sockets() const { return sockets_; }
  // The TCP port bound; 0 for a Unix socket.
  int port() const { return port_; }

 private:
  Listener() = default;
  absl::Status OpenUnix(absl::string_view path, const SocketFileOptions& file);
  absl::Status OpenTcp(absl::string_view address);
  void Close();

  std::vector<int> sockets_;
  int port_ = 0;
  std::string path_;  // of the file to remove; empty: none
  dev_t device_ = 0;  // and which file that is
  ino_t inode_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_NET_LISTEN_H_
