// SPDX-License-Identifier: Apache-2.0

// Where gRPC asks whether a call may go on.
//
// gRPC asks an AuthMetadataProcessor about every call of a connection, of
// whatever service and interface, when its headers are there and before the
// application learns of it. A refused call ends with PERMISSION_DENIED; nothing
// of its messages is read. That is once a call: the messages of a stream cost
// nothing.

#ifndef PLANB_SERVER_SECURITY_AUTHORIZED_CREDENTIALS_H_
#define PLANB_SERVER_SECURITY_AUTHORIZED_CREDENTIALS_H_

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "server/security/authorization.h"

namespace planb::server {

// To policies, calls that come in by plaintext carry a header of this name with
// the address listened to, such as unix:///run/planb/planb.sock. Clients cannot
// set it: what they send under this name is never looked at. So callers who
// reach different sockets can have different rights.
inline constexpr char kListenerHeader[] = "planb-listener";

// Plaintext, as grpc::InsecureServerCredentials(), on `address`.
// REQUIRES: `authorizer` is enabled, and its Start() was OK when calls come.
std::shared_ptr<grpc::ServerCredentials> AuthorizedPlaintext(
    std::shared_ptr<Authorizer> authorizer, std::string address);

// For ServerCredentials::SetAuthMetadataProcessor of TLS; the names in the
// client's verified certificate are its principals. REQUIRES: as above.
std::shared_ptr<grpc::AuthMetadataProcessor> TlsAuthorization(
    std::shared_ptr<Authorizer> authorizer);

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_AUTHORIZED_CREDENTIALS_H_
