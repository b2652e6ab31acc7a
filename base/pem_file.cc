// SPDX-License-Identifier: Apache-2.0

#include "base/pem_file.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/openssl.h"
#include "base/regular_file.h"

namespace planb::tls {
namespace {

// Debian's bundle of all public authorities has a fifth of this.
constexpr size_t kMaxFileBytes = 1 << 20;

absl::Status Refuse(const PemFile& file, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(file.name, ": ", why));
}

// Refuses, since a server has no terminal to ask on.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::StatusOr<std::vector<CertificatePtr>> Certificates(const PemFile& file) {
  const BioPtr bio = BioOf(file.text);
  std::vector<CertificatePtr> all;
  while (X509* const next =
             PEM_read_bio_X509_AUX(bio.get(), nullptr, NoPassphrase, nullptr)) {
    all.emplace_back(next);
  }
  const bool ended =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeError();
  if (!ended) {
    return Refuse(file, absl::StrCat("certificate ", all.size() + 1,
                                     " cannot be read (", reason, ")"));
  }
  if (all.empty()) return Refuse(file, "holds no certificate in PEM");
  return all;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

// Errors: INVALID_ARGUMENT, with the certificate's index and what is wrong, if
// it is not valid at `now`.
absl::Status CheckValidity(const PemFile& file, size_t index,
                           const X509& certificate,
                           std::optional<absl::Time> now) {
  if (!now.has_value()) return absl::OkStatus();
  const absl::Time begins = TimeOf(X509_get0_notBefore(&certificate));
  const absl::Time ends = TimeOf(X509_get0_notAfter(&certificate));
  if (now >= begins && now <= ends) return absl::OkStatus();
  return Refuse(
      file, absl::StrCat("certificate ", index + 1,
                         now > ends ? " expired at " : " is not valid before ",
                         absl::FormatTime(now > ends ? ends : begins,
                                          absl::UTCTimeZone())));
}

absl::Time FirstExpiry(const std::vector<CertificatePtr>& certificates) {
  absl::Time first = absl::InfiniteFuture();
  for (const CertificatePtr& each : certificates) {
    first = std::min(first, TimeOf(X509_get0_notAfter(each.get())));
  }
  return first;
}

// Loads both into a TLS context, as a server or client will.
absl::Status Match(const PemFile& certificate_file, X509& certificate,
                   const PemFile& key_file) {
  const SslContextPtr context(SSL_CTX_new(TLS_method()));
  if (SSL_CTX_use_certificate(context.get(), &certificate) != 1) {
    return Refuse(certificate_file, absl::StrCat("the certificate is refused (",
                                                 TakeError(), ")"));
  }
  const KeyPtr key(PEM_read_bio_PrivateKey(BioOf(key_file.text).get(), nullptr,
                                           NoPassphrase, nullptr));
  if (key == nullptr) {
    return Refuse(key_file,
                  absl::StrCat("holds no private key in PEM that can be read "
                               "without a passphrase (",
                               TakeError(), ")"));
  }
  if (X509_check_private_key(&certificate, key.get()) != 1) {
    ERR_clear_error();
    return Refuse(key_file,
                  absl::StrCat("is not the key of the certificate in ",
                               certificate_file.name));
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return Refuse(key_file, absl::StrCat("is refused (", TakeError(), ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PemFile> ReadPemFile(absl::string_view what,
                                    absl::string_view path) {
  PemFile file = {.name = absl::StrCat(what, " ", path)};
  auto text = ReadRegularFile(std::string(path), kMaxFileBytes);
  if (!text.ok()) return Refuse(file, text.status().message());
  if (text->empty()) return Refuse(file, "is empty");
  file.text = *std::move(text);
  return file;
}

absl::StatusOr<absl::Time> CheckIdentity(const PemFile& certificate,
                                         const PemFile& key,
                                         std::optional<absl::Time> now) {
  const auto chain = Certificates(certificate);
  if (!chain.ok()) return chain.status();
  absl::Status status = Match(certificate, *chain->front(), key);
  for (size_t i = 0; i < chain->size() && status.ok(); ++i) {
    status = CheckValidity(certificate, i, *(*chain)[i], now);
  }
  if (!status.ok()) return status;
  return FirstExpiry(*chain);
}

absl::StatusOr<absl::Time> CheckAuthorities(const PemFile& authorities,
                                            std::optional<absl::Time> now) {
  const auto all = Certificates(authorities);
  if (!all.ok()) return all.status();
  absl::Status first_wrong;
  for (size_t i = 0; i < all->size(); ++i) {
    absl::Status status = CheckValidity(authorities, i, *(*all)[i], now);
    if (status.ok()) return FirstExpiry(*all);
    if (first_wrong.ok()) first_wrong = std::move(status);
  }
  return first_wrong;
}

}  // namespace planb::tls
