// SPDX-License-Identifier: Apache-2.0

// The server refuses versions older than TLS 1.2 even if the configuration of
// OpenSSL on the host allows them: gRPC sets its own minimum.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "base/testing/test_certificates.h"
#include "server/testing/tls_probe.h"

namespace planb::server {
namespace {

// A configuration for OpenSSL with the least security.
constexpr char kLax[] = R"(
openssl_conf = start
[start]
ssl_conf = ssl
[ssl]
system_default = lax
[lax]
MinProtocol = TLSv1
CipherString = ALL:@SECLEVEL=0
)";

// Set before this process uses OpenSSL.
const bool kConfigured = [] {
  const std::string path = TempPath("lax.cnf");
  std::ofstream(path) << kLax;
  return setenv("OPENSSL_CONF", path.c_str(), 1) == 0;
}();

class TlsVersionTest : public testing::Test {
 protected:
  TlsVersionTest() {
    EXPECT_TRUE(kConfigured);
    files_.SetIdentity(identity_);
  }
  ~TlsVersionTest() override { unlink(TempPath("lax.cnf").c_str()); }

  TestAuthority authority_;
  const TestIdentity identity_ = authority_.Issue();
  TestTlsFiles files_;
};

// A server with the defaults of OpenSSL. Accepts one connection, writes a byte.
class BareServer {
 public:
  explicit BareServer(const TestIdentity& identity)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        context_(SSL_CTX_new(TLS_server_method())) {
    const tls::CertificatePtr certificate(PEM_read_bio_X509(
        tls::BioOf(identity.certificate).get(), nullptr, nullptr, nullptr));
    const tls::KeyPtr key(PEM_read_bio_PrivateKey(
        tls::BioOf(identity.key).get(), nullptr, nullptr, nullptr));
    EXPECT_EQ(SSL_CTX_use_certificate(context_.get(), certificate.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context_.get(), key.get()), 1);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    EXPECT_EQ(listen(listener_, 1), 0);
    thread_ = std::thread([this] { ServeOne(); });
  }
  ~BareServer() {
    thread_.join();
    close(listener_);
  }

  int port() const { return port_; }

 private:
  void ServeOne() {
    const int fd = accept(listener_, nullptr, nullptr);
    {
      const tls::SslPtr ssl(SSL_new(context_.get()));
      SSL_set_fd(ssl.get(), fd);
      if (SSL_accept(ssl.get()) == 1) SSL_write(ssl.get(), "!", 1);
    }
    close(fd);
  }

  const int listener_;
  const tls::SslContextPtr context_;
  int port_;
  std::thread thread_;
};

TlsProbe Probe(int port, int version) {
  return ProbeTls(
      port, {.min_version = version, .max_version = version, .lax = true});
}

TEST_F(TlsVersionTest, RefusesVersionsBefore12) {
  // This client and the configured defaults of OpenSSL support them.
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
    const BareServer bare(identity_);
    const TlsProbe seen = Probe(bare.port(), version);
    EXPECT_TRUE(seen.taken) << seen.error;
    EXPECT_EQ(seen.version, version == TLS1_VERSION ? "TLSv1" : "TLSv1.1");
  }
  ServerProcess server({"--listen=127.0.0.1:0",
                        "--metrics_address=", "--store=none",
                        absl::StrCat("--tls_cert=", files_.cert()),
                        absl::StrCat("--tls_key=", files_.key())});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const int port = server.PortOf("127.0.0.1:0");
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
    const TlsProbe seen = Probe(port, version);
    EXPECT_FALSE(seen.taken) << seen.version;
    EXPECT_EQ(seen.version, "") << "the handshake went through";
  }
  // The log of gRPC has the reason.
  EXPECT_TRUE(Await([&] {
    return absl::StrContains(server.Log(), "unsupported protocol");
  })) << server.Log();
  EXPECT_EQ(Probe(port, TLS1_2_VERSION).version, "TLSv1.2");
  EXPECT_EQ(Probe(port, TLS1_3_VERSION).version, "TLSv1.3");
  EXPECT_TRUE(Probe(port, TLS1_2_VERSION).taken);
  EXPECT_TRUE(Probe(port, TLS1_3_VERSION).taken);
}

}  // namespace
}  // namespace planb::server
