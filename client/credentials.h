// How a channel proves who is at its ends, if at all.

#ifndef PLANB_CLIENT_CREDENTIALS_H_
#define PLANB_CLIENT_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace planb::client {

// TLS 1.2 or 1.3, by files in PEM. All may be empty.
struct TlsOptions {
  // Authorities of which one must have signed the server's certificate; empty:
  // those that this host trusts.
  std::string ca;
  // Our certificate, with those of its issuers, and its key, for a server that
  // asks; both or none.
  std::string cert;
  std::string key;
  // The name that the server's certificate must have; empty: the target's host.
  std::string server_name;
};

// Reads and checks the files. Without options: plaintext.
// Errors: INVALID_ARGUMENT, naming option and file: unreadable, not PEM, a key
// of another certificate, a certificate that is not valid now.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const std::optional<TlsOptions>& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_CREDENTIALS_H_
