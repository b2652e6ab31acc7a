#include "benchmarks/serving/rpc/bare_server.h"

#include <grpcpp/security/server_credentials.h>

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace planb::rpc {
namespace {

// As the server's --max_message_bytes.
constexpr int kMaxMessageBytes = 16 << 20;

std::unique_ptr<Style> MakeStyle(absl::string_view name, Handler handler) {
  if (name == "callback") return MakeCallbackStyle(std::move(handler));
  if (name == "async") return MakeAsyncStyle(std::move(handler), false);
  if (name == "async_spin") return MakeAsyncStyle(std::move(handler), true);
  if (name == "sync") return MakeSyncStyle(std::move(handler));
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BareServer>> BareServer::Start(
    absl::string_view style, const std::vector<std::string>& addresses,
    Handler handler) {
  std::unique_ptr<BareServer> self(new BareServer);
  self->style_ = MakeStyle(style, std::move(handler));
  if (self->style_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "style \"", style, "\" is not callback, async, async_spin or sync"));
  }
  grpc::ServerBuilder builder;
  self->ports_.resize(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    builder.AddListeningPort(addresses[i], grpc::InsecureServerCredentials(),
                             &self->ports_[i]);
  }
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(&self->style_->service());
  self->style_->Prepare(builder);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) {
    self->style_->Stop();
    return absl::UnavailableError("cannot listen on an address given");
  }
  self->style_->Start();
  return self;
}

BareServer::~BareServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  style_->Stop();
  server_->Wait();
  server_.reset();
}

}  // namespace planb::rpc
