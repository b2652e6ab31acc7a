// SPDX-License-Identifier: Apache-2.0

// Accepts the connections of a gRPC server.
//
// gRPC 1.51 accepts connections on the threads that serve calls. A flood of
// connections keeps its loop busy. If the process runs out of descriptors, gRPC
// closes the listener for good (CVE-2023-4785). The acceptor accepts in its
// place: a socket has its options, and its peer is known, before gRPC gets it.

#ifndef PLANB_SERVER_NET_ACCEPTOR_H_
#define PLANB_SERVER_NET_ACCEPTOR_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/socket_options.h"
#include "server/net/admission.h"
#include "server/net/listen.h"

namespace planb::server {

struct AcceptorOptions {
  PeerRules peers;
  ConnectionLimits limits;
  SocketOptions sockets;
  // A TCP connection ends if sent data is not acknowledged for so long. gRPC's
  // own listeners set the same with keepalive.
  absl::Duration unacknowledged_timeout = absl::Seconds(20);
};

// Owns the listening sockets and one thread. gRPC owns a connection as soon as
// it is handed over. Rejected connections are closed at once. After 64 of them
// the thread pauses: a flood takes at most a tenth of a core, and lookups go
// on.
//
// Use: Listen() for each address, BuildAndStart() of the server, Start(). At
// the end Stop(), then Shutdown() of the server. Not thread-safe, except for
// admission().
class Acceptor {
 public:
  explicit Acceptor(AcceptorOptions options);
  ~Acceptor();  // Stops.
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Binds `address` for the server that `builder` builds. Clients can connect
  // at once; the acceptor accepts them from Start() on. Returns the TCP port, 0
  // for a Unix socket. Errors: those of Listener::Open.
  absl::StatusOr<int> Listen(const std::string& address,
                             const SocketFileOptions& file,
                             std::shared_ptr<grpc::ServerCredentials> creds,
                             grpc::ServerBuilder& builder);

  // REQUIRES: the server runs. Call at most once.
  void Start();

  // Closes the listening sockets. Hands over no connection after it has
  // returned. Idempotent.
  void Stop();

  Admission& admission() { return admission_; }

 private:
  struct Endpoint {
    Listener listener;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc;
  };

  void Run();
  // Accepts connections that wait at `socket`, at most one turn of them.
  void AcceptFrom(int socket, Endpoint& endpoint);
  void SetOptions(int fd, const Peer& peer) const;
  // Sleeps, or returns false at once when Stop() is called.
  bool Pause(absl::Duration length) const;

  const AcceptorOptions options_;
  Admission admission_;
  std::vector<Endpoint> endpoints_;
  const int stop_;        // an eventfd, readable when the thread is to end
  int rejected_ = 0;      // since the last pause; of the thread
  bool starved_ = false;  // accept() found no descriptor; of the thread
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_NET_ACCEPTOR_H_
