// SPDX-License-Identifier: Apache-2.0

// Each defect of a file is reported with the file's name.

#include "base/pem_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <string>

#include "absl/time/clock.h"
#include "base/openssl.h"
#include "base/testing/test_certificates.h"

namespace planb::tls {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));

PemFile Certificate(std::string text) { return {"--cert c.pem", text}; }
PemFile Key(std::string text) { return {"--key k.pem", text}; }
PemFile Authorities(std::string text) { return {"--ca a.pem", text}; }

std::string Why(const absl::StatusOr<absl::Time>& checked) {
  EXPECT_TRUE(absl::IsInvalidArgument(checked.status())) << checked.status();
  EXPECT_EQ(ERR_peek_error(), 0u) << "an error is left in OpenSSL's queue";
  return std::string(checked.status().message());
}

class PemFileTest : public ::testing::Test {
 protected:
  std::string WhyIdentity(const std::string& certificate,
                          const std::string& key) {
    return Why(CheckIdentity(Certificate(certificate), Key(key), kNow));
  }
  std::string WhyAuthorities(const std::string& text) {
    return Why(CheckAuthorities(Authorities(text), kNow));
  }

  TestAuthority authority_;
  const TestIdentity good_ =
      authority_.Issue({.ends = kNow + absl::Minutes(90)});
};

TEST_F(PemFileTest, ReturnsTheEarliestExpiry) {
  EXPECT_EQ(
      *CheckIdentity(Certificate(good_.certificate), Key(good_.key), kNow),
      kNow + absl::Minutes(90));
  // Of all certificates in the file.
  TestAuthority sooner({.ends = kNow + absl::Minutes(7)});
  EXPECT_EQ(*CheckIdentity(Certificate("# mine\n" + good_.certificate +
                                       sooner.certificate()),
                           Key(good_.certificate + good_.key), kNow),
            kNow + absl::Minutes(7));
  TestAuthority later({.ends = kNow + absl::Minutes(9)});
  EXPECT_EQ(*CheckAuthorities(
                Authorities(later.certificate() + sooner.certificate()), kNow),
            kNow + absl::Minutes(7));
}

TEST_F(PemFileTest, RefusesAnIdentityThatCannotServe) {
  EXPECT_EQ(WhyIdentity("nothing of the kind", good_.key),
            "--cert c.pem: holds no certificate in PEM");
  EXPECT_THAT(WhyIdentity(good_.key, good_.key), HasSubstr("no certificate"));
  EXPECT_THAT(WhyIdentity(good_.certificate, "nothing"),
              HasSubstr("--key k.pem: holds no private key in PEM"));
  EXPECT_THAT(WhyIdentity(good_.certificate, good_.certificate),
              HasSubstr("--key k.pem: holds no private key"));
  EXPECT_EQ(WhyIdentity(good_.certificate, authority_.Issue().key),
            "--key k.pem: is not the key of the certificate in --cert c.pem");
}

TEST_F(PemFileTest, RefusesFilesCutAnywhere) {
  const std::string chain = good_.certificate + authority_.certificate();
  const size_t step = 1 + good_.certificate.size() / 40;
  for (size_t size = good_.certificate.size() + 40; size + 2 < chain.size();
       size += step) {
    EXPECT_THAT(WhyIdentity(chain.substr(0, size), good_.key),
                HasSubstr("certificate 2 cannot be read"))
        << size;
    EXPECT_THAT(WhyAuthorities(chain.substr(0, size)),
                HasSubstr("certificate 2 cannot be read"));
  }
  for (size_t size = 0; size + 2 < good_.key.size(); size += 5) {
    EXPECT_THAT(WhyIdentity(chain, good_.key.substr(0, size)),
                HasSubstr("holds no private key"));
  }
}

TEST_F(PemFileTest, RefusesCertificatesNotValidNow) {
  const TestIdentity old = authority_.Issue(
      {.begins = kNow - absl::Hours(2), .ends = kNow - absl::Hours(1)});
  const std::string then =
      absl::FormatTime(kNow - absl::Hours(1), absl::UTCTimeZone());
  EXPECT_EQ(WhyIdentity(old.certificate, old.key),
            "--cert c.pem: certificate 1 expired at " + then);
  EXPECT_EQ(
      *CheckIdentity(Certificate(old.certificate), Key(old.key), std::nullopt),
      kNow - absl::Hours(1));
  const TestIdentity early = authority_.Issue(
      {.begins = kNow + absl::Hours(1), .ends = kNow + absl::Hours(2)});
  EXPECT_THAT(WhyIdentity(early.certificate, early.key),
              HasSubstr("certificate 1 is not valid before"));
  // An expired issuer in the chain.
  TestAuthority gone(
      {.begins = kNow - absl::Hours(2), .ends = kNow - absl::Hours(1)});
  EXPECT_EQ(WhyIdentity(good_.certificate + gone.certificate(), good_.key),
            "--cert c.pem: certificate 2 expired at " + then);
  // One expired authority among valid ones is accepted.
  EXPECT_EQ(WhyAuthorities(gone.certificate()),
            "--ca a.pem: certificate 1 expired at " + then);
  EXPECT_EQ(
      *CheckAuthorities(
          Authorities(gone.certificate() + authority_.certificate()), kNow),
      kNow - absl::Hours(1));
  EXPECT_EQ(*CheckAuthorities(Authorities(gone.certificate()), std::nullopt),
            kNow - absl::Hours(1));
  EXPECT_EQ(WhyAuthorities(good_.key),
            "--ca a.pem: holds no certificate in PEM");
}

TEST_F(PemFileTest, RefusesAKeyThatNeedsAPassphrase) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  unsigned char secret[] = "secret";
  ASSERT_EQ(PEM_write_bio_PrivateKey(bio.get(), key.get(), EVP_aes_128_cbc(),
                                     secret, 6, nullptr, nullptr),
            1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  EXPECT_THAT(WhyIdentity(good_.certificate,
                          std::string(text, static_cast<size_t>(size))),
              HasSubstr("without a passphrase"));
}

TEST_F(PemFileTest, RefusesAKeyTooWeakToServe) {
  const KeyPtr weak(EVP_RSA_gen(512));
  ASSERT_NE(weak, nullptr);
  const CertificatePtr certificate(X509_new());
  X509_set_pubkey(certificate.get(), weak.get());
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), 0);
  X509_time_adj_ex(X509_getm_notAfter(certificate.get()), 1, 0, nullptr);
  ASSERT_GT(X509_sign(certificate.get(), weak.get(), EVP_sha256()), 0);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  ASSERT_EQ(PEM_write_bio_X509(bio.get(), certificate.get()), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  EXPECT_THAT(
      WhyIdentity(std::string(text, static_cast<size_t>(size)), good_.key),
      HasSubstr("--cert c.pem: the certificate is refused (ee key too "
                "small)"));
}

TEST(ReadPemFile, ReadsRegularFilesOnly) {
  const std::string folder = ::testing::TempDir();
  const std::string path = folder + "/some.pem";
  ReplaceFile(path, "text");
  const auto file = ReadPemFile("--cert", path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->name, "--cert " + path);
  EXPECT_EQ(file->text, "text");
  const auto why = [](const std::string& of) {
    const absl::Status status = ReadPemFile("--cert", of).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(why(path + "x"), "--cert " + path + "x: No such file or directory");
  EXPECT_EQ(why(folder), "--cert " + folder + ": is no regular file");
  ReplaceFile(path, "");
  EXPECT_EQ(why(path), "--cert " + path + ": is empty");
  ReplaceFile(path, std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(why(path), HasSubstr("is larger than 1048576 bytes"));
}

}  // namespace
}  // namespace planb::tls
