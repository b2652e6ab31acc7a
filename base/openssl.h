// SPDX-License-Identifier: Apache-2.0

// Owners of OpenSSL's objects, and its errors as text.

#ifndef PLANB_BASE_OPENSSL_H_
#define PLANB_BASE_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace planb::tls {

template <auto free>
struct Frees {
  void operator()(auto* object) const { free(object); }
};

using BioPtr = std::unique_ptr<BIO, Frees<BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Frees<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Frees<X509_free>>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Frees<SSL_SESSION_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, Frees<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Frees<SSL_free>>;

// A source of the bytes of `text`, which must outlive it.
inline BioPtr BioOf(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Clears OpenSSL's queue of this thread's errors, since gRPC reads it too.
// Returns the text of the last error.
inline std::string TakeError() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

}  // namespace planb::tls

#endif  // PLANB_BASE_OPENSSL_H_
