// SPDX-License-Identifier: Apache-2.0

// Connects gRPC with an Authorizer.
//
// gRPC asks an AuthMetadataProcessor about each call of a connection, of any
// service, after it has received the headers and before the application sees
// the call. A refused call ends with PERMISSION_DENIED; its messages are not
// read. The messages of a stream cost nothing more.

#ifndef PLANB_SERVER_SECURITY_AUTHORIZED_CREDENTIALS_H_
#define PLANB_SERVER_SECURITY_AUTHORIZED_CREDENTIALS_H_

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "server/security/authorization.h"

namespace planb::server {

// For policies, plaintext calls have a header of this name with the address of
// the listening socket, such as unix:///run/planb/planb.sock. A header of this
// name that a client sends is ignored. So clients of different sockets can have
// different rights.
inline constexpr char kListenerHeader[] = "planb-listener";

// Plaintext, as grpc::InsecureServerCredentials(), on `address`.
// REQUIRES: `authorizer` is enabled, and its Start() is OK before the first
// call.
std::shared_ptr<grpc::ServerCredentials> AuthorizedPlaintext(
    std::shared_ptr<Authorizer> authorizer, std::string address);

// For ServerCredentials::SetAuthMetadataProcessor of TLS. The principals of a
// client are the names in its verified certificate. REQUIRES: as above.
std::shared_ptr<grpc::AuthMetadataProcessor> TlsAuthorization(
    std::shared_ptr<Authorizer> authorizer);

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_AUTHORIZED_CREDENTIALS_H_
