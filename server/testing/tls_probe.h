// SPDX-License-Identifier: Apache-2.0

// A bare TLS client, for handshakes that gRPC's client does not offer and
// details that it does not show.

#ifndef PLANB_SERVER_TESTING_TLS_PROBE_H_
#define PLANB_SERVER_TESTING_TLS_PROBE_H_

#include <string>

#include "base/openssl.h"
#include "base/testing/test_certificates.h"

namespace planb::server {

struct TlsProbeOptions {
  // Authorities to trust, in PEM; empty: any certificate is accepted.
  std::string ca;
  // The client's certificate and key; empty: none.
  TestIdentity identity;
  int min_version = TLS1_2_VERSION;
  int max_version = TLS1_3_VERSION;
  // Allow obsolete ciphers and keys.
  bool lax = false;
  // A session of an earlier connection to resume; null: none.
  SSL_SESSION* session = nullptr;
};

struct TlsProbe {
  // The server accepted the connection: it sent application data.
  bool taken = false;
  std::string error;        // if not
  std::string common_name;  // of the server's certificate
  std::string version;
  bool resumed = false;
  tls::SessionPtr session;
};

// Connects to a loopback port as an HTTP/2 client and waits for the server's
// first byte, for at most half a minute.
TlsProbe ProbeTls(int port, const TlsProbeOptions& options = {});

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_TLS_PROBE_H_
