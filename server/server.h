// SPDX-License-Identifier: Apache-2.0

// The whole service in one object: tables, both gRPC services, health,
// reflection and metrics. main() makes one, and so do tests.

#ifndef PLANB_SERVER_SERVER_H_
#define PLANB_SERVER_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "follow/path_attributes.h"
#include "lpm/fib/fib.h"
#include "server/base/commit_reload.h"
#include "server/control/control_context.h"
#include "server/lookup/batch.h"
#include "server/lookup/lookup_service.h"
#include "server/net/admission.h"
#include "server/net/listen.h"
#include "server/net/transport.h"
#include "server/observe/otlp_exporter.h"
#include "server/security/authorization.h"
#include "server/security/tls.h"
#include "server/store/table_cache.h"
#include "server/table/store.h"
#include "server/table/tables.h"

namespace planb::server {

// The routes that a server starts with: from a file, synthetic, or none.
struct InitialTableOptions {
  // A file in one of the formats of lpm/io; empty: none.
  std::string routes_file;
  // Start with what can be read of a damaged or cut file, and with a file that
  // has nothing in it, instead of refusing these.
  bool partial = false;
  bool allow_empty = false;
  // What of the paths of a table dump makes a next hop.
  PathParts path_parts = PathParts::kGateway;
  // Without a file: a synthetic table of so many routes.
  uint64_t generate_v6 = 0;
  uint64_t generate_v4 = 0;
  uint64_t seed = 1;
};

class Server;

struct ServerOptions {
  // Where to listen: "unix:///path" or "host:port"; port 0 picks a free one.
  std::vector<std::string> listen;
  // Further addresses, which serve all but lookups. Threads of their own read
  // these connections, so that large updates delay no lookup.
  std::vector<std::string> control_listen;
  // TLS on TCP. Unix sockets are always plaintext.
  TlsOptions tls;
  // Allows plaintext on TCP addresses that other hosts reach.
  bool insecure = false;
  // HOST:PORT where health alone is served, in plaintext; empty: nowhere.
  std::string health_address;
  // Whether the server is ready while the default table has no visible route.
  bool empty_table_ready = true;
  // A shared store that was not heard for so long makes the server not ready.
  absl::Duration max_staleness = absl::InfiniteDuration();
  // For Unix sockets: the mode and owner of their files, and which users may
  // connect.
  SocketFileOptions socket_file;
  PeerRules peers;
  // Which callers may call which methods.
  AuthorizationOptions authorization;
  // HOST:PORT of the pages over HTTP, such as /metrics; empty: nowhere.
  std::string metrics_address;
  std::string simd = "auto";
  // Batches that take at least this long are logged; 0: none.
  absl::Duration slow_batch = absl::ZeroDuration();
  InitialTableOptions initial;
  // Keeps tables across restarts; null: tables are lost.
  std::shared_ptr<Store> store = nullptr;
  // A copy of the tables of a remote store; null: the server does not start
  // while that does not answer.
  std::shared_ptr<TableCache> cache = nullptr;
  TablesOptions tables;
  LookupLimits lookup;
  // Sends traces; null: nothing is traced.
  std::shared_ptr<OtlpExporter> otlp = nullptr;
  // What the call Reload does. Null: nothing.
  std::function<absl::StatusOr<std::vector<std::string>>(Server&)> reload =
      nullptr;
  ControlLimits control;
  LookupThreads threads;
  TransportOptions transport;
};

// What can be known of the options before Start(): opens no socket, resolves no
// name, and reads only the files of TLS and of the policy. Of each part: OK, or
// INVALID_ARGUMENT that names its flag.
std::vector<absl::Status> CheckOptions(const ServerOptions& options);

// Reads the file of the initial routes, unless it is a pipe, and keeps nothing.
// Errors: those of ReadRouteFile and DATA_LOSS, naming the flag.
absl::Status CheckInitialTable(const InitialTableOptions& options);

// Thread-safe.
class Server {
 public:
  // Serves health and the HTTP pages, restores the stored tables, loads the
  // initial routes, then serves gRPC.
  // Errors: those of CheckOptions, INVALID_ARGUMENT (a socket's file is another
  // one), UNAVAILABLE (an
  // address cannot be bound), those of Tables::Restore, ReadRouteFile and
  // Table::Apply. After an error nothing runs.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);

  // Drains with a patience of 0.
  virtual ~Server() = default;

  // The TCP port bound for listen[i]; 0 for a Unix socket.
  virtual int port(size_t i) const = 0;

  // The TCP port bound for control_listen[i]; 0 for a Unix socket.
  virtual int control_port(size_t i) const = 0;

  // The port of `health_address`; 0 if there is none.
  virtual int health_port() const = 0;

  // The port of `metrics_address`; 0 if there is none.
  virtual int metrics_port() const = 0;

  // Reads the files of TLS and the authorization policy now. Thread-safe, and
  // so is what it returns, which is called while the server lives. Errors:
  // INVALID_ARGUMENT, for the first file that cannot be used; those of the
  // system.
  virtual absl::StatusOr<CommitReload> PrepareReload() = 0;

  // Health becomes NOT_SERVING and new calls are refused. Calls in flight have
  // `patience` to end, and answers that are being written a tenth of a second
  // more. Calls that are still open then end with UNAVAILABLE, without
  // ErrorInfo. Returns when the server is down. Call at most once.
  virtual void Drain(absl::Duration patience) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SERVER_H_
