// SPDX-License-Identifier: Apache-2.0

// planbctl generate: writes a synthetic routing table as text.

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/route_source.h"

namespace planb::client {
namespace {

constexpr uint64_t kDefaultRoutes = 100'000;

bool WriteRoutes(const std::vector<Route>& routes, std::FILE* file) {
  for (const Route& route : routes) {
    const std::string line =
        absl::StrCat(route.prefix.ToString(), " ", route.next_hop, "\n");
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size()) {
      return false;
    }
  }
  return std::fflush(file) == 0;
}

ExitCode Run(const Arguments& arguments) {
  const std::string count = absl::GetFlag(FLAGS_routes);
  uint64_t ipv6_routes = kDefaultRoutes;
  if (!count.empty() && !absl::SimpleAtoi(count, &ipv6_routes)) {
    return FailUsage(
        absl::StrCat("--routes=", count, " is no number of routes"));
  }
  const auto routes = MadeUpRoutes(ipv6_routes);
  if (!routes.ok()) return FailUsage(routes.status().message());
  const std::string path = arguments.empty() ? "" : arguments[0];
  std::FILE* const file =
      path.empty() ? stdout : std::fopen(path.c_str(), "we");
  if (file == nullptr) return FailUsage(absl::StrCat("cannot write ", path));
  const bool written = WriteRoutes(*routes, file);
  const bool closed = file == stdout || std::fclose(file) == 0;
  if (!written || !closed) {
    return FailUsage(absl::StrCat("cannot write ",
                                  path.empty() ? "the standard output" : path));
  }
  return ExitCode::kOk;
}

const RegisteredCommand kGenerateCommand({
    .name = "generate",
    .arguments = "[FILE]",
    .summary = "make up a routing table like the Internet's",
    .description =
        "Writes a synthetic routing table to FILE, or to the standard "
        "output, as text, \"PREFIX/LEN NEXTHOP\" a line, sorted: --routes IPv6 "
        "routes with the Internet's mix of "
        "prefix lengths, clustered in allocations, and --ipv4 IPv4 "
        "routes, at most 10,000,000 together. The same numbers and --seed make "
        "the same table on every "
        "machine. Needs no server.",
    .flags = {"routes", "ipv4", "seed", "next_hops"},
    .run = Run,
    .needs_server = false,
});

}  // namespace
}  // namespace planb::client
