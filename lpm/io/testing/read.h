// Reads octets as a route file and keeps everything that came of it.

#ifndef PLANB_LPM_IO_TESTING_READ_H_
#define PLANB_LPM_IO_TESTING_READ_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/byte_reader.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_output.h"
#include "lpm/io/route_sink.h"

namespace planb::testing {

// Keeps what it is given, in order.
struct ListSink : RouteSink {
  absl::Status OnNextHop(const NextHop& next_hop) override {
    next_hops.push_back(next_hop);
    return absl::OkStatus();
  }
  absl::Status OnRoute(const Route& route) override {
    routes.push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    groups.push_back(group);
    return absl::OkStatus();
  }

  std::vector<Route> routes;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
};

struct Reading {
  absl::Status status;
  RouteFileReport report;
  std::vector<NextHop> next_hops;
  std::vector<Route> routes;
  std::vector<NextHopGroup> groups;

  // "2001:db8::/32 1" each, in the order of the file.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const Route& route : routes) {
      lines.push_back(
          absl::StrCat(route.prefix.ToString(), " ", route.next_hop));
    }
    return lines;
  }
};

// Reads with one format's reader.
inline Reading ReadWith(
    const std::function<absl::Status(ByteReader&, RouteOutput&)>& reader,
    std::string octets, bool strict = false, size_t piece = SIZE_MAX) {
  ListSink sink;
  ByteReader in(StringSource(std::move(octets), piece));
  RouteOutput out("F", strict, sink);
  absl::Status status = reader(in, out);
  return {status, out.report(), sink.next_hops, sink.routes, sink.groups};
}

// Reads as ReadRouteFile does, detection and decompression included.
inline Reading ReadAny(std::string octets, RouteFileOptions options = {},
                       size_t piece = SIZE_MAX) {
  ListSink sink;
  absl::StatusOr<RouteFileReport> report =
      ReadRoutes("F", StringSource(std::move(octets), piece), options, sink);
  return {report.status(), report.ok() ? *report : RouteFileReport{},
          sink.next_hops, sink.routes, sink.groups};
}

}  // namespace planb::testing

#endif  // PLANB_LPM_IO_TESTING_READ_H_
