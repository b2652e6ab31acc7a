// SPDX-License-Identifier: Apache-2.0

// A small HTTP server for scrapers, probes and browsers: GET and HEAD, one
// reply for each connection. libevent implements the protocol.

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
  // Directives of the Content-Security-Policy, each with "; " behind it.
  // Without them a browser runs no script, applies no style and makes no
  // request.
  std::string sources = "";
  std::string body;
};

struct HttpLimits {
  // Open at once. Further connections wait in the kernel's queue.
  size_t max_connections = 256;
  // Bytes of the request line with the headers, and of the body.
  int max_header_bytes = 8 << 10;
  int max_body_bytes = 64 << 10;
  // From the start of a connection to its end, at any rate of bytes.
  absl::Duration max_lifetime = absl::Seconds(15);
};

// Thread-safe. One thread answers all requests, one at a time. Serves until its
// destructor.
class HttpServer {
 public:
  // Makes the reply to a request with this header `Accept`, on the server's
  // thread.
  using Page = std::function<HttpReply(const std::string& accept)>;
  // By path. Other paths are answered by 404, other methods than GET and HEAD
  // by 405, or by 501 if libevent does not know them.
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
