// SPDX-License-Identifier: Apache-2.0

// Accepts the connections of a gRPC server.
//
// gRPC 1.51 accepts connections on the threads that serve calls, in a loop that
// a flood of connections keeps busy, and closes a listener for good when the
// process runs out of descriptors (CVE-2023-4785). So this accepts in its place
// and hands sockets over: they have their options and their peer is known
// before gRPC sees them.

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
  // TCP connections end when data that was sent is not acknowledged for so
  // long, as gRPC's own listeners have it with keepalive.
  absl::Duration unacknowledged_timeout = absl::Seconds(20);
};

// Owns the listening sockets and one thread. A connection belongs to gRPC as
// soon as it is handed over. Rejected connections are closed at once; after 64
// of them the thread pauses, so that a flood of them takes a tenth of a core at
// most and lookups go on.
//
// Use: Listen() for each address, BuildAndStart() of the server, Start(); at
// the end Stop(), then Shutdown() of the server. Not thread-safe, but for what
// admission() offers.
class Acceptor {
 public:
  explicit Acceptor(AcceptorOptions options);
  ~Acceptor();  // Stops.
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Binds `address` and has the server that `builder` builds serve it. Clients
  // can connect from now on and are accepted from Start() on. The TCP port
  // bound, 0 for a Unix socket. Errors: those of Listener::Open.
  absl::StatusOr<int> Listen(const std::string& address,
                             const SocketFileOptions& file,
                             std::shared_ptr<grpc::ServerCredentials> creds,
                             grpc::ServerBuilder& builder);

  // REQUIRES: the server runs. Call at most once.
  void Start();

  // Closes the listening sockets. After its return no connection is handed
  // over. Idempotent.
  void Stop();

  Admission& admission() { return admission_; }

 private:
  struct Endpoint {
    Listener listener;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc;
  };

  void Run();
  // Accepts what waits at `socket`, within a turn of connections.
  void AcceptFrom(int socket, Endpoint& endpoint);
  void SetOptions(int fd, const Peer& peer) const;
  // Sleeps, or returns false at once when Stop() is called.
  bool Pause(absl::Duration length) const;

  const AcceptorOptions options_;
  Admission admission_;
  std::vector<Endpoint> endpoints_;
  const int stop_;        // an eventfd: readable when the thread is to end
  int rejected_ = 0;      // since the last pause; the thread's alone
  bool starved_ = false;  // accept() found no descriptor; the thread's alone
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_NET_ACCEPTOR_H_
