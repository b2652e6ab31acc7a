// SPDX-License-Identifier: Apache-2.0

// The real server as a process on a store, and a client's view of it: what
// tests of faults ask before and after the fault.

#ifndef PLANB_SERVER_TESTING_STORED_SERVER_H_
#define PLANB_SERVER_TESTING_STORED_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/testing/server_process.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {

// One generation as ListRoutes streams it.
struct Listed {
  uint64_t generation = 0;
  std::map<Prefix, NextHopId> routes;
  std::string digest;  // computed here, of `routes`

  friend bool operator==(const Listed&, const Listed&) = default;
};

// How long a test waits for what should take far less.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// Listens on a Unix socket of its own, so that no channel to an earlier server
// is taken for one to this. Dies with kill -9 at the end of its life, unless it
// has ended before. The stubs are thread-safe, all else is not.
class StoredServer {
 public:
  // `store` is the value of --store.
  explicit StoredServer(const std::string& store,
                        std::vector<std::string> more = {});
  ~StoredServer();

  ServerProcess& process() { return process_; }
  v1::RouteTable::Stub& table() { return *table_; }
  v1::RouteLookup::Stub& lookup() { return *lookup_; }
  const std::string& socket() const { return socket_; }

  // Waits until it serves, true, or has ended, false. Also false after
  // kPatience.
  bool Begins() const;

  void KillNow() {
    process_.Kill(SIGKILL);
    process_.Wait();
  }
  // SIGTERM; the exit status.
  int End() {
    process_.Kill(SIGTERM);
    return process_.Wait();
  }

  grpc::Status Update(const v1::UpdateRoutesRequest& request,
                      v1::UpdateRoutesResponse* response = nullptr) const;

  // These expect to succeed.
  v1::Table State() const;
  Listed List() const;
  // In `generation` or a later one.
  NextHopId Lookup(absl::string_view address, uint64_t generation = 0) const;

  // One sample of /metrics, -1 if there is none of that name. REQUIRES: began
  // with kMetrics.
  double Metric(absl::string_view name) const;

 private:
  std::string socket_;
  ServerProcess process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::RouteTable::Stub> table_;
  std::unique_ptr<v1::RouteLookup::Stub> lookup_;
};

// Serves metrics on a free port.
inline constexpr char kMetrics[] = "--metrics_address=127.0.0.1:0";

// One more change of `request`; next hop 0 withdraws.
void AddChange(absl::string_view prefix, NextHopId next_hop,
               v1::UpdateRoutesRequest& request);

// `count` prefixes of `next_hop`, from 2001:db8:FIRST::/48 on, ACK_VISIBLE.
v1::UpdateRoutesRequest Announcement(uint32_t first, uint32_t count,
                                     NextHopId next_hop);

// The last line that the process has left on stderr, if it is the only one that
// is no log.
std::string OneLine(const ServerProcess& process);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_STORED_SERVER_H_
