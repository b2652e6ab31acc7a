// SPDX-License-Identifier: Apache-2.0

// Certificates and private keys in PEM files. They are checked before gRPC gets
// them, because gRPC reports little about a defect, and only in its own log.
// Each error names the file and its role.

#ifndef PLANB_BASE_PEM_FILE_H_
#define PLANB_BASE_PEM_FILE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace planb::tls {

struct PemFile {
  std::string name;  // for messages: role and path, such as "--tls_cert a.pem"
  std::string text;

  bool operator==(const PemFile& other) const = default;
};

// Reads the file at `path`. `what` is its role, for example the flag's name.
// Errors: INVALID_ARGUMENT if the file cannot be read, is empty, is not a
// regular file or is larger than a megabyte.
absl::StatusOr<PemFile> ReadPemFile(absl::string_view what,
                                    absl::string_view path);

// Checks an identity. `certificate` has the certificate, then those of issuers
// that the other side may lack; `key` is the key of the first. Without `now`
// they may be outside the time in which they are valid. Returns the earliest
// expiry of all certificates.
// Errors: INVALID_ARGUMENT: not PEM; a block is cut; the key needs a passphrase
// or belongs to another certificate; OpenSSL refuses the key as too weak; a
// certificate is not valid at `now`.
absl::StatusOr<absl::Time> CheckIdentity(const PemFile& certificate,
                                         const PemFile& key,
                                         std::optional<absl::Time> now);

// Checks the authorities, one of which must have signed the other side's
// certificate. `now`: as above. Returns the earliest expiry of all
// certificates. Errors: INVALID_ARGUMENT: not PEM; a block is cut; no
// certificate is valid at `now` (one is enough).
absl::StatusOr<absl::Time> CheckAuthorities(const PemFile& authorities,
                                            std::optional<absl::Time> now);

}  // namespace planb::tls

#endif  // PLANB_BASE_PEM_FILE_H_
