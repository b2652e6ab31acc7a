// SPDX-License-Identifier: Apache-2.0

// A server process on a store, and the calls that tests of faults make before
// and after the fault.

#ifndef PLANB_SERVER_TESTING_STORED_SERVER_H_
#define PLANB_SERVER_TESTING_STORED_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {

// One generation as it is listed.
struct Listed {
  uint64_t generation = 0;
  std::map<Prefix, NextHopId> routes;
  // Computed of `routes` and of what ListNextHops streams.
  std::string digest;

  friend bool operator==(const Listed&, const Listed&) = default;
};

// Listens on a Unix socket of its own, so that gRPC does not reuse a channel to
// an earlier server. The destructor kills the process with SIGKILL if it still
// runs. The stubs are thread-safe, all else is not.
class StoredServer {
 public:
  // `store` is the value of --store. For `environment` see ServerProcess.
  explicit StoredServer(const std::string& store,
                        std::vector<std::string> more = {},
                        std::vector<std::string> environment = {});
  ~StoredServer();

  ServerProcess& process() { return process_; }
  v1::RouteTable::Stub& table() { return *table_; }
  v1::RouteLookup::Stub& lookup() { return *lookup_; }
  const std::string& socket() const { return socket_; }

  // Waits until the server serves. False if it ends, or after kPatience.
  bool Begins() const;

  void KillNow() {
    process_.Kill(SIGKILL);
    process_.Wait();
  }
  // Sends SIGTERM and returns the exit status.
  int End() {
    process_.Kill(SIGTERM);
    return process_.Wait();
  }

  grpc::Status Update(const v1::UpdateRoutesRequest& request,
                      v1::UpdateRoutesResponse* response = nullptr) const;

  // These fail the test if the call fails.
  v1::Table State() const;
  Listed List() const;
  // The next hop of `address` in `generation` or a later one.
  NextHopId Lookup(absl::string_view address, uint64_t generation = 0) const;

  // The value of a sample of /metrics; -1 if there is none of that name.
  // REQUIRES: constructed with kMetrics.
  double Metric(absl::string_view name) const;

 private:
  std::string socket_;
  ServerProcess process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::RouteTable::Stub> table_;
  std::unique_ptr<v1::RouteLookup::Stub> lookup_;
};

// A flag: serve metrics on a free port.
inline constexpr char kMetrics[] = "--metrics_address=127.0.0.1:0";

// Adds a change to `request`; a next hop of 0 means a withdrawal.
void AddChange(absl::string_view prefix, NextHopId next_hop,
               v1::UpdateRoutesRequest& request);

// Announces `count` prefixes from 2001:db8:FIRST::/48 on, with ACK_VISIBLE.
v1::UpdateRoutesRequest Announcement(uint32_t first, uint32_t count,
                                     NextHopId next_hop);

// The only line on stderr that is no log line. Expects that it is the last
// line.
std::string OneLine(const ServerProcess& process);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_STORED_SERVER_H_
