// SPDX-License-Identifier: Apache-2.0

#include "base/target.h"

#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/socket_options.h"

namespace planb {
namespace {

constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

// Why `target` is refused, or empty.
std::string Fault(absl::string_view target) {
  if (target.empty()) return "is empty";
  absl::string_view rest = target;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (rest.empty()) return "has no path";
    if (absl::StartsWith(rest, "//") && !absl::StartsWith(rest, "///")) {
      return "is not a Unix socket: write unix:///absolute/path";
    }
    if (rest.size() <= kLongestPath) return "";
    return absl::StrCat("has a path longer than ", kLongestPath, " bytes");
  }
  for (const absl::string_view scheme :
       {"unix-abstract:", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&rest, scheme)) {
      return rest.empty() ? "has no name" : "";
    }
  }
  if (absl::StrContains(target, '/')) {
    return "is a URL or a path: write host:port or unix:///absolute/path";
  }
  // A bare host would mean the HTTPS port to gRPC. After the brackets of an
  // IPv6 literal, or else anywhere, a port must follow a colon.
  const bool opens = absl::StartsWith(target, "[");
  const size_t bracket = target.rfind(']');
  if (opens != (bracket != absl::string_view::npos)) {
    return "has one bracket of two: write IPv6 as [address]:port";
  }
  const size_t colon = target.find(':', opens ? bracket : 0);
  if (colon == absl::string_view::npos || colon + 1 == target.size()) {
    return "has no port: write host:port or [address]:port";
  }
  if (colon == 0) return "has no host: write host:port or [address]:port";
  if (!opens && absl::StrContains(target.substr(colon + 1), ':')) {
    return "has colons: write IPv6 as [address]:port";
  }
  // gRPC takes a number modulo 65536, which is the port of something else.
  uint32_t port = 0;
  if (!absl::SimpleAtoi(target.substr(colon + 1), &port) || port == 0 ||
      port > 65535) {
    return "has no port of 1 to 65535";
  }
  return "";
}

}  // namespace

absl::Status CheckTarget(absl::string_view what, absl::string_view target) {
  const std::string fault = Fault(target);
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": \"", target, "\" ", fault));
}

bool IsUnixTarget(absl::string_view target) {
  return absl::StartsWith(target, "unix:") ||
         absl::StartsWith(target, "unix-abstract:");
}

bool LeavesHost(absl::string_view target) {
  if (IsUnixTarget(target)) return false;
  for (const absl::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  const size_t slash = target.rfind('/');
  if (slash != absl::string_view::npos) target.remove_prefix(slash + 1);
  for (absl::string_view host : absl::StrSplit(target, ',')) {
    if (!absl::EndsWith(host, "]")) host = host.substr(0, host.rfind(':'));
    if (!IsLoopbackHost(host)) return true;
  }
  return false;
}

}  // namespace planb
