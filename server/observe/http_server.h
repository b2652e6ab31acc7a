// SPDX-License-Identifier: Apache-2.0

// A small HTTP server for the pages that scrapers, probes and people read: GET
// and HEAD, one reply a connection. libevent does the protocol.

#ifndef PLANB_SERVER_OBSERVE_HTTP_SERVER_H_
#define PLANB_SERVER_OBSERVE_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace planb::server {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  // Directives of the Content-Security-Policy, each with "; " behind it. Without
  // them a browser runs no script, applies no style and makes no request.
  std::string sources = "";
  std::string body;
};

struct HttpLimits {
  // Open at once; who comes then waits in the kernel's queue.
  size_t max_connections = 256;
  // Bytes of a request's line and headers, and of its body.
  int max_header_bytes = 8 << 10;
  int max_body_bytes = 64 << 10;
  // From the first byte of a connection to the last, however fast they come.
  absl::Duration max_lifetime = absl::Seconds(15);
};

// Thread-safe. One thread answers all, one request at a time. Serves for as
// long as it lives.
class HttpServer {
 public:
  // A page: called for each request, on the server's thread.
  using Page = std::function<HttpReply()>;
  // By path. Another path is answered by 404, a method that no page has by 405
  // (501 if HTTP does not have it either).
  using Pages = std::map<std::string, Page>;

  // `address` is IPv4:PORT or [IPv6]:PORT; port 0 picks a free one, and [::]
  // takes IPv4 as well. Errors: INVALID_ARGUMENT (no such address), UNAVAILABLE
  // (cannot be bound).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, Pages pages, HttpLimits limits = {});

  // Ends all connections.
  virtual ~HttpServer() = default;

  // The port bound.
  virtual int port() const = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HTTP_SERVER_H_
