// SPDX-License-Identifier: Apache-2.0

#include "server/testing/tls_probe.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace planb::server {
namespace {

using tls::BioOf;
using tls::CertificatePtr;
using tls::KeyPtr;
using tls::SslContextPtr;
using tls::SslPtr;

class Socket {
 public:
  explicit Socket(int port)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience = {.tv_sec = 30};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(fd_); }

  int fd() const { return fd_; }
  bool connected() const { return connected_; }

 private:
  const int fd_;
  bool connected_;
};

SslContextPtr Context(const TlsProbeOptions& options) {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), options.min_version);
  SSL_CTX_set_max_proto_version(context.get(), options.max_version);
  if (options.lax) {
    SSL_CTX_set_cipher_list(context.get(), "ALL:@SECLEVEL=0");
  }
  const unsigned char h2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), h2, sizeof(h2));
  if (!options.ca.empty()) {
    const CertificatePtr ca(
        PEM_read_bio_X509(BioOf(options.ca).get(), nullptr, nullptr, nullptr));
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  if (!options.identity.key.empty()) {
    const CertificatePtr certificate(PEM_read_bio_X509(
        BioOf(options.identity.certificate).get(), nullptr, nullptr, nullptr));
    const KeyPtr key(PEM_read_bio_PrivateKey(BioOf(options.identity.key).get(),
                                             nullptr, nullptr, nullptr));
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  }
  return context;
}

std::string CommonName(SSL& ssl) {
  const CertificatePtr shown(SSL_get1_peer_certificate(&ssl));
  if (shown == nullptr) return "";
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName,
                            name, sizeof(name));
  return name;
}

std::string Why(int error) {
  if (error == SSL_ERROR_SSL) return tls::TakeError();
  if (error == SSL_ERROR_ZERO_RETURN) return "closed";
  return errno == 0 ? "closed" : std::strerror(errno);
}

}  // namespace

TlsProbe ProbeTls(int port, const TlsProbeOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // the server may close at any time
  TlsProbe probe;
  const Socket socket(port);
  if (!socket.connected()) {
    probe.error = std::strerror(errno);
    return probe;
  }
  const SslContextPtr context = Context(options);
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.fd());
  if (options.session != nullptr) SSL_set_session(ssl.get(), options.session);
  ERR_clear_error();
  errno = 0;
  int result = SSL_connect(ssl.get());
  if (result == 1) {
    probe.version = SSL_get_version(ssl.get());
    probe.common_name = CommonName(*ssl);
    probe.resumed = SSL_session_reused(ssl.get()) == 1;
    // With TLS 1.3 the server checks the client's certificate after
    // SSL_connect.
    char first;
    result = SSL_read(ssl.get(), &first, 1);
  }
  probe.taken = result == 1;
  if (!probe.taken) probe.error = Why(SSL_get_error(ssl.get(), result));
  probe.session.reset(SSL_get1_session(ssl.get()));
  // Else OpenSSL does not resume the session.
  SSL_set_shutdown(ssl.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  ERR_clear_error();
  return probe;
}

}  // namespace planb::server
