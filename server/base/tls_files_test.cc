// SPDX-License-Identifier: Apache-2.0

// New valid files are loaded once they no longer change. Invalid ones are
// refused once, and the old ones stay in use. Metrics show the same.

#include "server/base/tls_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/testing/test_certificates.h"

namespace planb::server {
namespace {

const absl::Time kSoon =
    absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now())) + absl::Minutes(30);

// Values that are not 0, by the values of the labels.
std::map<std::string, double> Values(const TlsMetrics& metrics, size_t family) {
  std::map<std::string, double> values;
  const auto families = metrics.Collect();
  EXPECT_EQ(families[family].metric.size(), 8u);
  for (const auto& metric : families[family].metric) {
    std::vector<std::string> labels;
    for (const auto& label : metric.label) labels.push_back(label.value);
    const double value =
        family == 0 ? metric.gauge.value : metric.counter.value;
    if (value != 0) values[absl::StrJoin(labels, " ")] = value;
  }
  return values;
}

class TlsReloaderTest : public testing::Test {
 protected:
  TlsReloaderTest() {
    files_.SetIdentity(authority_.Issue());
    files_.SetAuthority(authority_.certificate());
    auto texts = ReadTlsFiles(named_);
    EXPECT_TRUE(texts.ok()) << texts.status();
    const auto expiry = CheckTlsTexts(*texts, absl::Now());
    EXPECT_TRUE(expiry.ok()) << expiry.status();
    reloader_ = std::make_unique<TlsReloader>(
        named_, *std::move(texts), *expiry,
        [this](const TlsTexts& fresh) -> absl::StatusOr<CommitReload> {
          ++prepared_;
          if (!use_status_.ok()) return use_status_;
          return [this, cert = fresh.cert.text] { used_.push_back(cert); };
        });
  }

  // Enough for any change to take effect.
  void PollMuch() {
    for (int i = 0; i < 5; ++i) reloader_->Poll();
  }

  TestAuthority authority_;
  TestTlsFiles files_;
  // Only the test polls.
  const TlsFiles named_ = {.kind = "server",
                           .cert = {"--tls_cert", files_.cert()},
                           .key = {"--tls_key", files_.key()},
                           .ca = {"--tls_client_ca", files_.ca()},
                           .reload_interval = absl::InfiniteDuration()};
  absl::Status use_status_;
  int prepared_ = 0;
  std::vector<std::string> used_;
  std::unique_ptr<TlsReloader> reloader_;
};

TEST_F(TlsReloaderTest, DoesNotReloadUnchangedFiles) {
  PollMuch();
  EXPECT_TRUE(used_.empty());
  EXPECT_EQ(reloader_->loaded(), 0u);
  EXPECT_EQ(reloader_->refused(), 0u);
}

TEST_F(TlsReloaderTest, LoadsNewFilesOnceTheyNoLongerChange) {
  const TestIdentity fresh = authority_.Issue({.ends = kSoon});
  files_.SetIdentity(fresh);
  reloader_->Poll();
  EXPECT_TRUE(used_.empty()) << "may be half of it";
  reloader_->Poll();
  EXPECT_EQ(used_, std::vector<std::string>{fresh.certificate});
  EXPECT_EQ(reloader_->expiry().cert, kSoon);
  EXPECT_EQ(reloader_->loaded(), 1u);
  PollMuch();
  EXPECT_EQ(used_.size(), 1u);
}

TEST_F(TlsReloaderTest, AdoptsWhatWasPreparedAndNotBefore) {
  const TestIdentity fresh = authority_.Issue({.ends = kSoon});
  files_.SetIdentity(fresh);
  const auto adopt = reloader_->Prepare();
  ASSERT_TRUE(adopt.ok()) << adopt.status();
  EXPECT_TRUE(used_.empty());
  EXPECT_NE(reloader_->expiry().cert, kSoon);
  (*adopt)();
  EXPECT_EQ(used_, std::vector<std::string>{fresh.certificate});
  EXPECT_EQ(reloader_->expiry().cert, kSoon);
  EXPECT_EQ(reloader_->loaded(), 1u);
  PollMuch();
  EXPECT_EQ(used_.size(), 1u);

  ReplaceFile(files_.key(), "no key");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(reloader_->Prepare().ok());
  PollMuch();
  EXPECT_EQ(reloader_->refused(), 1u);
}

TEST_F(TlsReloaderTest, WaitsForSecondFile) {
  const TestIdentity fresh = authority_.Issue();
  ReplaceFile(files_.cert(), fresh.certificate);
  reloader_->Poll();
  ReplaceFile(files_.key(), fresh.key);
  reloader_->Poll();
  EXPECT_TRUE(used_.empty());
  reloader_->Poll();
  EXPECT_EQ(used_, std::vector<std::string>{fresh.certificate});
  EXPECT_EQ(reloader_->refused(), 0u);
}

TEST_F(TlsReloaderTest, RefusesInvalidFilesOnce) {
  const absl::Time before = reloader_->expiry().cert;
  const TestIdentity fresh = authority_.Issue({.ends = kSoon});
  const TestIdentity expired =
      authority_.Issue({.begins = absl::Now() - absl::Hours(2),
                        .ends = absl::Now() - absl::Hours(1)});
  uint64_t refused = 0;
  for (const TestIdentity& bad : std::vector<TestIdentity>{
           {fresh.certificate, authority_.Issue().key},
           {fresh.certificate.substr(0, fresh.certificate.size() / 2),
            fresh.key},
           {"", fresh.key},
           expired}) {
    files_.SetIdentity(bad);
    PollMuch();
    EXPECT_EQ(reloader_->refused(), ++refused) << bad.certificate;
  }
  ASSERT_EQ(unlink(files_.cert().c_str()), 0);
  PollMuch();
  EXPECT_EQ(reloader_->refused(), ++refused);
  files_.SetAuthority("no authority");
  files_.SetIdentity(fresh);
  PollMuch();
  EXPECT_EQ(reloader_->refused(), ++refused);
  EXPECT_TRUE(used_.empty());
  EXPECT_EQ(reloader_->expiry().cert, before);
  files_.SetAuthority(authority_.certificate());
  PollMuch();
  EXPECT_EQ(used_, std::vector<std::string>{fresh.certificate});
  EXPECT_EQ(reloader_->loaded(), 1u);
}

TEST_F(TlsReloaderTest, LoadsFilesThatBecomeValid) {
  const TestIdentity early =
      authority_.Issue({.begins = absl::Now() + absl::Seconds(2)});
  files_.SetIdentity(early);
  reloader_->Poll();
  reloader_->Poll();
  // A slow machine may poll too late to see it refused.
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (used_.empty() && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(50));
    reloader_->Poll();
  }
  EXPECT_EQ(used_, std::vector<std::string>{early.certificate});
}

TEST_F(TlsReloaderTest, RetriesAfterErrorOfUse) {
  files_.SetIdentity(authority_.Issue({.ends = kSoon}));
  use_status_ = absl::UnavailableError("no memory");
  PollMuch();
  EXPECT_EQ(prepared_, 4);
  EXPECT_TRUE(used_.empty());
  EXPECT_EQ(reloader_->refused(), 1u);
  EXPECT_NE(reloader_->expiry().cert, kSoon);
  use_status_ = absl::OkStatus();
  reloader_->Poll();
  EXPECT_EQ(reloader_->loaded(), 1u);
  EXPECT_EQ(reloader_->expiry().cert, kSoon);
}

TEST_F(TlsReloaderTest, ShowsMetricsOfEachKind) {
  // A client of etcd that shows no certificate.
  const TlsFiles others = {.kind = "etcd",
                           .ca = {"--etcd_ca", files_.ca()},
                           .reload_interval = absl::InfiniteDuration()};
  auto texts = ReadTlsFiles(others);
  ASSERT_TRUE(texts.ok()) << texts.status();
  const TlsReloader etcd(others, *texts, {.ca = kSoon + absl::Minutes(7)},
                         [](const TlsTexts&) { return CommitReload([] {}); });
  const TlsMetrics metrics({reloader_.get(), &etcd});
  TestAuthority fresh({.names = "", .ends = kSoon + absl::Minutes(5)});
  files_.SetIdentity(fresh.Issue({.ends = kSoon}));
  files_.SetAuthority(fresh.certificate());
  PollMuch();
  ReplaceFile(files_.key(), "no key");
  PollMuch();
  EXPECT_EQ(Values(metrics, 0),
            (std::map<std::string, double>{
                {"server", absl::ToUnixSeconds(kSoon)},
                {"ca", absl::ToUnixSeconds(kSoon + absl::Minutes(5))},
                {"etcd_ca", absl::ToUnixSeconds(kSoon + absl::Minutes(7))}}));
  EXPECT_EQ(Values(metrics, 1),
            (std::map<std::string, double>{{"server loaded", 1},
                                           {"server refused", 1}}));
}

TEST(TlsMetrics, ExistWithoutTls) {
  const TlsMetrics metrics({});
  EXPECT_TRUE(Values(metrics, 0).empty());
  EXPECT_TRUE(Values(metrics, 1).empty());
}

}  // namespace
}  // namespace planb::server
