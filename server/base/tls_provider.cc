// SPDX-License-Identifier: Apache-2.0

#include "server/base/tls_provider.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

// gRPC's shortest interval. The files are in memory, so reading them is cheap.
constexpr unsigned kWatchSeconds = 1;

// Certificates and key are in one file, so that they change together. A reader
// of PEM skips blocks of other types.
std::string Identity(const TlsTexts& texts) {
  return absl::StrCat(texts.cert.text, "\n", texts.key.text);
}

std::string PathOf(const std::unique_ptr<MemoryFile>& file) {
  return file == nullptr ? "" : file->path();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsProvider>> TlsProvider::Start(
    const TlsFiles& files, bool valid_now) {
  absl::StatusOr<TlsTexts> texts = ReadTlsFiles(files);
  if (!texts.ok()) return texts.status();
  auto expiry = CheckTlsTexts(*texts, absl::Now());
  if (!expiry.ok() && !valid_now) {
    const absl::Status outdated = expiry.status();
    expiry = CheckTlsTexts(*texts, std::nullopt);
    if (expiry.ok()) {
      Log(LogLevel::kError, "a certificate is not valid now",
          {{"kind", files.kind}, {"error", outdated.message()}});
    }
  }
  if (!expiry.ok()) return expiry.status();
  std::unique_ptr<TlsProvider> made(new TlsProvider);
  if (!texts->cert.text.empty()) {
    auto identity = MemoryFile::Create(
        absl::StrCat("planb ", files.kind, " identity"), Identity(*texts));
    if (!identity.ok()) return identity.status();
    made->identity_ = *std::move(identity);
  }
  if (!texts->ca.text.empty()) {
    auto ca = MemoryFile::Create(absl::StrCat("planb ", files.kind, " ca"),
                                 texts->ca.text);
    if (!ca.ok()) return ca.status();
    made->ca_ = *std::move(ca);
  }
  made->watcher_ =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          PathOf(made->identity_), PathOf(made->identity_), PathOf(made->ca_),
          kWatchSeconds);
  made->reloader_ =
      std::make_unique<TlsReloader>(files, *std::move(texts), *expiry,
                                    [self = made.get()](const TlsTexts& fresh) {
                                      return self->Prepare(fresh);
                                    });
  return made;
}

absl::StatusOr<CommitReload> TlsProvider::Prepare(const TlsTexts& fresh) {
  std::vector<CommitReload> files;
  for (const auto& [file, text] : {std::pair(identity_.get(), Identity(fresh)),
                                   {ca_.get(), fresh.ca.text}}) {
    if (file == nullptr) continue;
    auto replace = file->Prepare(text);
    if (!replace.ok()) return replace.status();
    files.push_back(*std::move(replace));
  }
  return [files = std::move(files)] {
    for (const CommitReload& replace : files) replace();
  };
}

}  // namespace planb::server
