// SPDX-License-Identifier: Apache-2.0

// The whole service in one object: tables, both gRPC services, health,
// reflection and metrics. main() makes one; so do tests.

#ifndef PLANB_SERVER_SERVER_H_
#define PLANB_SERVER_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lpm/fib/fib.h"
#include "server/control/control_context.h"
#include "server/lookup/batch.h"
#include "server/lookup/lookup_service.h"
#include "server/net/admission.h"
#include "server/net/listen.h"
#include "server/net/transport.h"
#include "server/security/authorization.h"
#include "server/security/tls_files.h"
#include "server/table/store.h"
#include "server/table/tables.h"

namespace planb::server {

// The routes that a server starts with: from a file, made up, or none.
struct InitialTableOptions {
  // A file as lpm/io reads it; empty: none.
  std::string routes_file;
  // Refuse a file with a malformed record.
  bool strict = false;
  // Or a synthetic table of so many routes.
  uint64_t generate_v6 = 0;
  uint64_t generate_v4 = 0;
  uint64_t seed = 1;
};

struct ServerOptions {
  // Where to listen: "unix:///path" or "host:port"; port 0 picks a free one.
  std::vector<std::string> listen;
  // On TCP; Unix sockets are always plaintext.
  TlsOptions tls;
  // Without TLS: listen also where other hosts can read along.
  bool insecure = false;
  // Where to serve health alone, HOST:PORT in plaintext; empty: nowhere.
  std::string health_address;
  // Whether lookups can be sent here while the default table has no route.
  bool empty_table_ready = true;
  // Of the Unix sockets among them: their files, and who may connect.
  SocketFileOptions socket_file;
  PeerRules peers;
  // Who may call what.
  AuthorizationOptions authorization;
  // Where to serve /metrics over HTTP; empty: nowhere.
  std::string metrics_address;
  std::string simd = "auto";
  // Batches that take so long are logged; 0: none.
  absl::Duration slow_batch = absl::ZeroDuration();
  InitialTableOptions initial;
  // Where tables survive a crash; null: nowhere.
  std::shared_ptr<Store> store = nullptr;
  TablesOptions tables;
  LookupLimits lookup;
  // False only to measure what counting costs: LookupMetrics stay 0.
  bool count_lookups = true;
  ControlLimits control;
  LookupThreads threads;
  TransportOptions transport;
};

// Thread-safe.
class Server {
 public:
  // Listens for health, restores what is stored, loads the initial table, then
  // listens for all else.
  // Errors: INVALID_ARGUMENT (an option, a file of TLS), UNAVAILABLE (an
  // address cannot be bound), those of Tables::Restore and LoadInitialTable. On
  // an error nothing is left running.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  virtual ~Server() = default;  // Drains without patience.

  // The TCP port bound for listen[i]; 0 for a Unix socket.
  virtual int port(size_t i) const = 0;

  // The port of health alone, 0 if there is none.
  virtual int health_port() const = 0;

  // The port of /metrics, 0 if there is none.
  virtual int metrics_port() const = 0;

  // Stops accepting, says NOT_SERVING, answers what is in flight for at most
  // `patience` (and a tenth of a second for answers on their way), then ends:
  // what is still open is cut off with UNAVAILABLE, without ErrorInfo. Returns
  // when all is down. Call at most once.
  virtual void Drain(absl::Duration patience) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SERVER_H_
