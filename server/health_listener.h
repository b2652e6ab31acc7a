// SPDX-License-Identifier: Apache-2.0

// A port for probes: the health service in plaintext over TCP, and nothing
// else. A gRPC server of its own, so that no lookup and no route change can be
// reached there whatever is registered elsewhere, and so that it can answer
// before the tables are loaded.

#ifndef PLANB_SERVER_HEALTH_LISTENER_H_
#define PLANB_SERVER_HEALTH_LISTENER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/net/acceptor.h"
#include "server/observe/health_service.h"
#include "server/observe/health_state.h"

namespace planb::server {

// Thread-safe. Serves for as long as it lives.
class HealthListener {
 public:
  // `address` is HOST:PORT; port 0 picks a free one. `state` outlives this.
  // Errors: INVALID_ARGUMENT (no such address), UNAVAILABLE (cannot be bound).
  static absl::StatusOr<std::unique_ptr<HealthListener>> Start(
      const std::string& address, const HealthState& state);

  // Ends all calls. End the state first, and watchers hear of it.
  ~HealthListener();

  // The port bound.
  int port() const { return port_; }

 private:
  explicit HealthListener(const HealthState& state);

  HealthService service_;
  Acceptor acceptor_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_HEALTH_LISTENER_H_
