// SPDX-License-Identifier: Apache-2.0

// Makes real certificates for the tests that need them.

#ifndef PLANB_BASE_TESTING_TEST_CERTIFICATES_H_
#define PLANB_BASE_TESTING_TEST_CERTIFICATES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/openssl.h"

namespace planb {

// A certificate and its key, both in PEM.
struct TestIdentity {
  std::string certificate;
  std::string key;
};

struct TestCertificateOptions {
  std::string common_name = "planb";
  // Subject alternative names, as OpenSSL's configuration writes them.
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  absl::Time begins = absl::Now() - absl::Hours(1);
  absl::Time ends = absl::Now() + absl::Hours(1);
};

// A certificate authority. Not thread-safe.
class TestAuthority {
 public:
  explicit TestAuthority(TestCertificateOptions options = {
                             .common_name = "planb test authority",
                             .names = ""});

  // Its own certificate, signed by itself, in PEM.
  const std::string& certificate() const { return pem_; }

  // A new key (ECDSA on P-256) and its certificate, for servers and clients.
  TestIdentity Issue(const TestCertificateOptions& options = {});

 private:
  tls::KeyPtr key_;
  tls::CertificatePtr certificate_;
  std::string pem_;
};

// Replaces a file by a rename, so that readers see the old or the new one.
void ReplaceFile(const std::string& path, absl::string_view text);

// The files that the TLS flags name, in a temporary folder. Not thread-safe.
class TestTlsFiles {
 public:
  TestTlsFiles();

  void SetIdentity(const TestIdentity& identity);
  void SetAuthority(absl::string_view pem) { ReplaceFile(ca(), pem); }

  std::string cert() const { return folder_ + "/tls.crt"; }
  std::string key() const { return folder_ + "/tls.key"; }
  std::string ca() const { return folder_ + "/ca.crt"; }

 private:
  std::string folder_;
};

}  // namespace planb

#endif  // PLANB_BASE_TESTING_TEST_CERTIFICATES_H_
