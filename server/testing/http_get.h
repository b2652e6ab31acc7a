// SPDX-License-Identifier: Apache-2.0

// A minimal HTTP client for loopback ports.

#ifndef PLANB_SERVER_TESTING_HTTP_GET_H_
#define PLANB_SERVER_TESTING_HTTP_GET_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// A connection to a loopback port; -1 on failure.
inline int HttpConnect(int port, bool ipv6 = false) {
  const in_port_t network = htons(static_cast<in_port_t>(port));
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = network;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = network;
  v6.sin6_addr = in6addr_loopback;
  const int client = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  const int connected =
      ipv6 ? connect(client, reinterpret_cast<sockaddr*>(&v6), sizeof(v6))
           : connect(client, reinterpret_cast<sockaddr*>(&v4), sizeof(v4));
  if (connected == 0) return client;
  close(client);
  return -1;
}

// Sends `request`. Returns false if the connection is closed.
inline bool HttpSend(int client, absl::string_view request) {
  return send(client, request.data(), request.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(request.size());
}

// Returns all bytes until the server closes the connection, and closes it.
inline std::string HttpReceive(int client) {
  std::string all;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(client, buffer, sizeof(buffer), 0)) > 0;) {
    all.append(buffer, static_cast<size_t>(n));
  }
  close(client);
  return all;
}

// Returns the whole reply to a request, with its header; "" on failure.
inline std::string HttpCall(int port, absl::string_view method,
                            absl::string_view path, bool ipv6 = false) {
  const int client = HttpConnect(port, ipv6);
  if (client < 0) return "";
  HttpSend(client, absl::StrCat(method, " ", path,
                                " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  return HttpReceive(client);
}

inline std::string HttpGet(int port, absl::string_view path) {
  return HttpCall(port, "GET", path);
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_HTTP_GET_H_
