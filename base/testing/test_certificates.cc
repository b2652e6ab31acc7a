// SPDX-License-Identifier: Apache-2.0

#include "base/testing/test_certificates.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <fstream>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

using tls::BioPtr;
using tls::CertificatePtr;
using tls::KeyPtr;

// Aborts unless `done`: the test cannot continue.
void Require(bool done) {
  if (done) return;
  ADD_FAILURE() << tls::TakeError();
  abort();
}

std::string Pem(X509& certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  Require(PEM_write_bio_X509(bio.get(), &certificate) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

std::string Pem(EVP_PKEY& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  Require(PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0,
                                   nullptr, nullptr) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

KeyPtr NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  Require(key != nullptr);
  return key;
}

void Extend(X509& certificate, X509* issuer, int extension,
            const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const made =
      X509V3_EXT_conf_nid(nullptr, &context, extension, value.c_str());
  Require(made != nullptr && X509_add_ext(&certificate, made, -1) == 1);
  X509_EXTENSION_free(made);
}

// Without an `issuer`, signs itself and is an authority.
CertificatePtr Sign(const TestCertificateOptions& options, EVP_PKEY& key,
                    X509* issuer, EVP_PKEY& issuer_key) {
  CertificatePtr made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  // Certificates of one issuer need different numbers.
  absl::BitGen random;
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()),
                          absl::Uniform<uint64_t>(random) >> 1);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), absl::ToTimeT(options.begins));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), absl::ToTimeT(options.ends));
  X509_set_pubkey(made.get(), &key);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(
      subject, "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(options.common_name.c_str()), -1,
      -1, 0);
  X509_set_issuer_name(
      made.get(), issuer == nullptr ? subject : X509_get_subject_name(issuer));
  X509* const by = issuer == nullptr ? made.get() : issuer;
  Extend(*made, by, NID_basic_constraints,
         issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  Extend(*made, by, NID_subject_key_identifier, "hash");
  if (issuer == nullptr) {
    Extend(*made, by, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    Extend(*made, by, NID_authority_key_identifier, "keyid:always");
    Extend(*made, by, NID_ext_key_usage, "serverAuth,clientAuth");
  }
  if (!options.names.empty()) {
    Extend(*made, by, NID_subject_alt_name, options.names);
  }
  Require(X509_sign(made.get(), &issuer_key, EVP_sha256()) > 0);
  return made;
}

}  // namespace

TestAuthority::TestAuthority(TestCertificateOptions options)
    : key_(NewKey()),
      certificate_(Sign(options, *key_, nullptr, *key_)),
      pem_(Pem(*certificate_)) {}

TestIdentity TestAuthority::Issue(const TestCertificateOptions& options) {
  const KeyPtr key = NewKey();
  return {.certificate = Pem(*Sign(options, *key, certificate_.get(), *key_)),
          .key = Pem(*key)};
}

void ReplaceFile(const std::string& path, absl::string_view text) {
  const std::string temporary = path + ".new";
  std::ofstream(temporary, std::ios::binary) << text;
  ASSERT_EQ(std::rename(temporary.c_str(), path.c_str()), 0) << path;
}

TestTlsFiles::TestTlsFiles() : folder_(testing::TempDir() + "/tls.XXXXXX") {
  EXPECT_NE(mkdtemp(folder_.data()), nullptr) << folder_;
}

void TestTlsFiles::SetIdentity(const TestIdentity& identity) {
  ReplaceFile(cert(), identity.certificate);
  ReplaceFile(key(), identity.key);
}

}  // namespace planb
