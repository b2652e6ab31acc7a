// SPDX-License-Identifier: Apache-2.0

#include "server/security/authorized_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb::server {
namespace {

constexpr char kRefusal[] =
    "the server's authorization policy does not allow it";

absl::string_view Text(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

absl::string_view Text(const grpc::string_ref& text) {
  return {text.data(), text.size()};
}

// Joins the values of a repeated header as HTTP does.
void Join(std::optional<std::string>& joined, absl::string_view value) {
  joined = joined.has_value() ? absl::StrCat(*joined, ",", value)
                              : std::string(value);
}

// gRPC refuses calls with two headers of this name.
constexpr absl::string_view kPath = ":path";

// By gRPC's C interface: the C++ one has no processor for plaintext.
struct PlaintextProcessor {
  const std::shared_ptr<Authorizer> authorizer;
  const std::string address;

  bool Allow(const grpc_metadata* headers, size_t count) const {
    const auto header =
        [&](absl::string_view name) -> std::optional<std::string> {
      if (name == kListenerHeader) return address;
      std::optional<std::string> value;
      for (size_t i = 0; i < count; ++i) {
        if (Text(headers[i].key) == name) Join(value, Text(headers[i].value));
      }
      return value;
    };
    const std::string path = header(kPath).value_or("");
    return authorizer->Allow(
        {.path = path, .principals = {}, .header = header});
  }

  static void Process(void* self, grpc_auth_context*,
                      const grpc_metadata* headers, size_t count,
                      grpc_process_auth_metadata_done_cb done, void* call) {
    if (static_cast<PlaintextProcessor*>(self)->Allow(headers, count)) {
      done(call, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
    } else {
      done(call, nullptr, 0, nullptr, 0, GRPC_STATUS_PERMISSION_DENIED,
           kRefusal);
    }
  }

  static void Destroy(void* self) {
    delete static_cast<PlaintextProcessor*>(self);
  }
};

class PlaintextCredentials final : public grpc::ServerCredentials {
 public:
  PlaintextCredentials(std::shared_ptr<Authorizer> authorizer,
                       std::string address)
      : authorizer_(std::move(authorizer)), address_(std::move(address)) {}

  // Ignored: these credentials have their own.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    grpc_server_credentials* const credentials =
        grpc_insecure_server_credentials_create();
    grpc_server_credentials_set_auth_metadata_processor(
        credentials, {PlaintextProcessor::Process, PlaintextProcessor::Destroy,
                      new PlaintextProcessor{authorizer_, address_}});
    const int port =
        grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  const std::shared_ptr<Authorizer> authorizer_;
  const std::string address_;
};

class TlsProcessor final : public grpc::AuthMetadataProcessor {
 public:
  explicit TlsProcessor(std::shared_ptr<Authorizer> authorizer)
      : authorizer_(std::move(authorizer)) {}

  // Runs on the thread that serves the call, not on another.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& headers, grpc::AuthContext* peer,
                       OutputMetadata*, OutputMetadata*) override {
    // The names are valid as long as `peer`.
    std::vector<absl::string_view> principals;
    for (const char* kind :
         {GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME,
          GRPC_X509_SUBJECT_PROPERTY_NAME}) {
      for (const grpc::string_ref& name : peer->FindPropertyValues(kind)) {
        principals.push_back(Text(name));
      }
    }
    const auto header =
        [&headers](absl::string_view name) -> std::optional<std::string> {
      std::optional<std::string> value;
      if (name == kListenerHeader) return value;
      const auto [first, last] =
          headers.equal_range(grpc::string_ref(name.data(), name.size()));
      for (auto i = first; i != last; ++i) Join(value, Text(i->second));
      return value;
    };
    const std::string path = header(kPath).value_or("");
    return authorizer_->Allow({.path = path,
                               .principals = std::move(principals),
                               .header = header})
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::PERMISSION_DENIED, kRefusal);
  }

 private:
  const std::shared_ptr<Authorizer> authorizer_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> AuthorizedPlaintext(
    std::shared_ptr<Authorizer> authorizer, std::string address) {
  return std::make_shared<PlaintextCredentials>(std::move(authorizer),
                                                std::move(address));
}

std::shared_ptr<grpc::AuthMetadataProcessor> TlsAuthorization(
    std::shared_ptr<Authorizer> authorizer) {
  return std::make_shared<TlsProcessor>(std::move(authorizer));
}

}  // namespace planb::server
