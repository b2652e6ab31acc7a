// SPDX-License-Identifier: Apache-2.0

// Certificates and private keys in PEM files, checked before gRPC gets them:
// gRPC says little about what is wrong, and that only to its own log.
//
// Errors are for people: each names the file and what the caller calls it.

#ifndef PLANB_BASE_PEM_FILE_H_
#define PLANB_BASE_PEM_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace planb::tls {

struct PemFile {
  // For messages: what the caller calls it, and its path.
  std::string name;
  std::string text;

  bool operator==(const PemFile& other) const = default;
};

// Reads the file that, say, the flag `what` names.
// Errors: INVALID_ARGUMENT if it cannot be read, is empty, no regular file, or
// larger than a megabyte.
absl::StatusOr<PemFile> ReadPemFile(absl::string_view what,
                                    absl::string_view path);

// Checks what one side shows of itself: `certificate` has its certificate,
// then those of its issuers, as far as the other side may lack them; `key` is
// that of the first. Returns when the first of them all expires.
// Errors: INVALID_ARGUMENT: not PEM, a block cut short, a key that needs a
// passphrase or belongs to another certificate, one that OpenSSL takes for too
// weak, a certificate that is not valid at `now`.
absl::StatusOr<absl::Time> CheckIdentity(const PemFile& certificate,
                                         const PemFile& key, absl::Time now);

// Checks the certificates of which one must have signed the other side's.
// Returns when the first of them expires.
// Errors: INVALID_ARGUMENT: not PEM, a block cut short, none valid at `now`
// (some may have expired: these do no harm).
absl::StatusOr<absl::Time> CheckAuthorities(const PemFile& authorities,
                                            absl::Time now);

}  // namespace planb::tls

#endif  // PLANB_BASE_PEM_FILE_H_
