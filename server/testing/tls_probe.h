// SPDX-License-Identifier: Apache-2.0

// A bare TLS client: does what gRPC's would never do, and sees what it hides.

#ifndef PLANB_SERVER_TESTING_TLS_PROBE_H_
#define PLANB_SERVER_TESTING_TLS_PROBE_H_

#include <string>

#include "base/openssl.h"
#include "base/testing/test_certificates.h"

namespace planb::server {

struct TlsProbeOptions {
  // Authorities to trust, in PEM; empty: whoever it is.
  std::string ca;
  // Shown to the server; empty: nothing.
  TestIdentity identity;
  int min_version = TLS1_2_VERSION;
  int max_version = TLS1_3_VERSION;
  // Down to what nobody should speak any more.
  bool lax = false;
  // Of an earlier connection, to be resumed; null: none.
  SSL_SESSION* session = nullptr;
};

struct TlsProbe {
  // True if the server sent application data, so it took us.
  bool taken = false;
  std::string error;  // why not
  // Of the certificate that the server showed.
  std::string common_name;
  std::string version;
  bool resumed = false;
  tls::SessionPtr session;
};

// Connects to this port of this host as an HTTP/2 client and waits for what
// the server says first. Ends within half a minute.
TlsProbe ProbeTls(int port, const TlsProbeOptions& options = {});

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_TLS_PROBE_H_
