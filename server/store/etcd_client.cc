// SPDX-License-Identifier: Apache-2.0

#include "server/store/etcd_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/regular_file.h"
#include "etcd.grpc.pb.h"
#include "server/base/grpc_time.h"
#include "server/base/periodic.h"

namespace planb::server {
namespace {

using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;

// A page of a read begins with so many keys, and has about so many bytes: it
// must come within one attempt, by slow networks too.
constexpr int64_t kFirstPage = 4;
constexpr int64_t kLargestPage = 4096;
constexpr size_t kPageBytes = 1 << 20;
constexpr int64_t kFewerKeys = 8;  // a page that failed has so many times less
// After so many pages that came, a page may have twice as many keys again: it
// may have failed because a member was away.
constexpr int kPagesThatCome = 16;
constexpr auto kRetryPause = std::chrono::milliseconds(20);
// A member that does not take a connection in this time is passed over.
constexpr absl::Duration kConnectTime = absl::Milliseconds(300);

absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()),
          absl::StrCat("etcd: ", status.error_message())};
}

// True if another attempt, or another member, may answer.
bool MayPass(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// True if etcd has answered that it changed nothing.
bool IsRefusal(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
      return true;
    default:
      return false;
  }
}

// Also does the work of connecting, which no other thread does between calls.
bool Connected(grpc::Channel& channel) {
  return channel.WaitForConnected(GrpcAfter(kConnectTime));
}

bool TokenRefused(const grpc::Status& status) {
  const std::string& message = status.error_message();
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         absl::StrContains(message, "invalid auth token") ||
         absl::StrContains(message, "revision of auth store is old") ||
         absl::StrContains(message, "user name is empty");
}

}  // namespace

std::string EndOfPrefix(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xff) {
    prefix.pop_back();
  }
  if (!prefix.empty()) ++prefix.back();
  return prefix.empty() ? std::string(1, '\0') : prefix;
}

class EtcdClient::Context {
 public:
  Context(EtcdClient& client, std::optional<SteadyInstant> deadline,
          bool with_token = true)
      : client_(client) {
    if (deadline.has_value()) {
      context_.set_deadline(
          GrpcAfter(absl::FromChrono(*deadline - SteadyNow())));
    }
    const MutexLock lock(client_.mutex_);
    if (with_token && !client_.token_.empty()) {
      context_.AddMetadata("token", client_.token_);
    }
    client_.contexts_.insert(&context_);
    if (client_.cancelled_) context_.TryCancel();
  }
  ~Context() {
    const MutexLock lock(client_.mutex_);
    client_.contexts_.erase(&context_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  grpc::ClientContext* get() { return &context_; }

 private:
  EtcdClient& client_;
  grpc::ClientContext context_;
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(
    EtcdOptions options) {
  std::unique_ptr<EtcdClient> client(new EtcdClient(std::move(options)));
  auto tls = StartClientTls(client->options_.tls);
  if (!tls.ok()) return tls.status();
  client->tls_ = *std::move(tls);
  for (const std::string& endpoint : client->options_.endpoints) {
    client->channels_.push_back(MakeChannel(endpoint, client->tls_.get()));
  }
  return client;
}

absl::Status EtcdClient::Authenticate(
    const std::shared_ptr<grpc::Channel>& channel, SteadyInstant deadline) {
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  etcdserverpb::AuthenticateResponse response;
  Context context(*this, deadline, /*with_token=*/false);
  const grpc::Status status =
      etcdserverpb::Auth::NewStub(channel)->Authenticate(context.get(), request,
                                                         &response);
  if (!status.ok()) return FromGrpc(status);
  const MutexLock lock(mutex_);
  token_ = response.token();
  return absl::OkStatus();
}

void EtcdClient::See(const etcdserverpb::ResponseHeader& header,
                     const Seen& before) {
  const MutexLock lock(mutex_);
  if (seen_.histories != before.histories) return;  // of either
  if ((before.cluster != 0 && header.cluster_id() != before.cluster) ||
      header.revision() < before.revision) {
    seen_ = {header.cluster_id(), header.revision(), seen_.histories + 1};
    return;
  }
  seen_.cluster = header.cluster_id();
  seen_.revision = std::max(seen_.revision, header.revision());
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> EtcdClient::Call(
    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                 Response*),
    const Request& request, absl::Duration timeout, bool* lost) {
  const SteadyInstant deadline =
      SteadyAfter(std::min(timeout, options_.timeout));
  bool authenticated = false;
  bool renewed = false;
  for (;;) {
    const SteadyInstant attempt =
        std::min(deadline, SteadyAfter(options_.attempt_timeout));
    const size_t turn = turn_;
    const auto& to = ChannelTo(turn);
    if (!options_.user.empty() && !authenticated && !renewed) {
      const MutexLock lock(mutex_);
      authenticated = !token_.empty();
    }
    Response response;
    grpc::Status status;
    if (!Connected(*to)) {
      status = {grpc::StatusCode::UNAVAILABLE, "no member takes a connection"};
    }
    if (status.ok() && !options_.user.empty() && !authenticated) {
      const absl::Status login = Authenticate(to, attempt);
      authenticated = login.ok();
      if (!login.ok()) {
        status = {static_cast<grpc::StatusCode>(login.code()),
                  std::string(login.message())};
      }
    }
    if (status.ok()) {
      const Seen before = seen();
      Context context(*this, attempt);
      Stub stub(to);
      status = (stub.*method)(context.get(), request, &response);
      // These are linearizable.
      if constexpr (std::is_same_v<Stub, etcdserverpb::KV::Stub>) {
        if (status.ok()) See(response.header(), before);
      }
      if (status.ok()) return response;
      if (lost != nullptr && !IsRefusal(status)) *lost = true;
      if (!options_.user.empty() && TokenRefused(status) && !renewed) {
        // Tokens expire. Once more, with another one.
        renewed = true;
        authenticated = false;
        continue;
      }
    }
    if (!MayPass(status)) return FromGrpc(status);
    Rotate(turn);
    if (SteadyNow() + kRetryPause >= deadline) return FromGrpc(status);
    {
      const MutexLock lock(mutex_);
      if (cancelled_) return absl::CancelledError("etcd: the store is closed");
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::Txn(
    const etcdserverpb::TxnRequest& request, absl::Duration timeout,
    bool* lost) {
  return Call(&etcdserverpb::KV::Stub::Txn, request, timeout, lost);
}

absl::StatusOr<RangeResponse> EtcdClient::Range(const RangeRequest& request) {
  return Call(&etcdserverpb::KV::Stub::Range, request);
}

absl::Status EtcdClient::Put(const etcdserverpb::PutRequest& request) {
  return Call(&etcdserverpb::KV::Stub::Put, request).status();
}

absl::Status EtcdClient::DeleteRange(
    const etcdserverpb::DeleteRangeRequest& request) {
  return Call(&etcdserverpb::KV::Stub::DeleteRange, request).status();
}

absl::Status EtcdClient::Compact(int64_t revision) {
  etcdserverpb::CompactionRequest request;
  request.set_revision(revision);
  return Call(&etcdserverpb::KV::Stub::Compact, request).status();
}

absl::StatusOr<int64_t> EtcdClient::GrantLease(int64_t seconds) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  const auto response = Call(&etcdserverpb::Lease::Stub::LeaseGrant, request);
  if (!response.ok()) return response.status();
  return response->id();
}

absl::Status EtcdClient::RevokeLease(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  return Call(&etcdserverpb::Lease::Stub::LeaseRevoke, request).status();
}

absl::Status EtcdClient::KeepLease(int64_t lease) {
  Context context(*this, SteadyAfter(options_.attempt_timeout));
  const size_t turn = turn_;
  const auto& to = ChannelTo(turn);
  if (!Connected(*to)) {
    Rotate(turn);
    return absl::UnavailableError("etcd: no member takes a connection");
  }
  const auto stream =
      etcdserverpb::Lease::Stub(to).LeaseKeepAlive(context.get());
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  const bool answered = stream->Write(request) && stream->Read(&response);
  context.get()->TryCancel();
  stream->Finish();
  if (!answered) {
    Rotate(turn);
    return absl::UnavailableError("etcd: the lease may be lost");
  }
  return response.ttl() > 0 ? absl::OkStatus()
                            : absl::NotFoundError("etcd: the lease is lost");
}

absl::StatusOr<int64_t> EtcdClient::ReadPrefix(
    const std::string& prefix, int64_t revision,
    absl::FunctionRef<absl::Status(const etcdserverpb::KeyValue&)> read) {
  RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(EndOfPrefix(prefix));
  request.set_limit(kFirstPage);
  request.set_revision(revision);
  int64_t largest = kLargestPage;
  int came = 0;  // pages since one failed
  for (;;) {
    const int64_t limit = request.limit();
    const auto page =
        Call(&etcdserverpb::KV::Stub::Range, request,
             limit > 1 ? options_.attempt_timeout : absl::InfiniteDuration());
    const bool may_fit = absl::IsDeadlineExceeded(page.status()) ||
                         absl::IsUnavailable(page.status()) ||
                         absl::IsResourceExhausted(page.status());
    if (may_fit && limit > 1) {
      largest = limit / 2;
      came = 0;
      request.set_limit(std::max<int64_t>(limit / kFewerKeys, 1));
      continue;
    }
    if (!page.ok()) return page.status();
    if (request.revision() == 0) {
      request.set_revision(page->header().revision());
    }
    for (const etcdserverpb::KeyValue& kv : page->kvs()) {
      if (absl::Status status = read(kv); !status.ok()) return status;
    }
    if (!page->more() || page->kvs().empty()) return request.revision();
    request.set_key(page->kvs().rbegin()->key() + '\0');
    if (++came % kPagesThatCome == 0) {
      largest = std::min(2 * largest, kLargestPage);
    }
    const size_t bytes = page->ByteSizeLong();
    if (bytes > kPageBytes) {
      request.set_limit(std::max<int64_t>(limit / 2, 1));
    } else if (bytes < kPageBytes / 2) {
      request.set_limit(std::min(limit * 2, largest));
    }
  }
}

absl::Status EtcdClient::Watch(
    const std::string& prefix, int64_t revision, absl::Duration silence,
    absl::FunctionRef<absl::Status(const etcdserverpb::WatchResponse&)> event) {
  const size_t turn = turn_;
  const auto& to = ChannelTo(turn);
  if (!Connected(*to)) {
    Rotate(turn);
    return absl::UnavailableError("etcd: no member takes a connection");
  }
  if (!options_.user.empty()) {
    const absl::Status login =
        Authenticate(to, SteadyAfter(options_.attempt_timeout));
    if (!login.ok()) {
      Rotate(turn);
      return login;
    }
  }
  Context context(*this, std::nullopt);
  // A member that has lost the others ends the watch, rather than be silent.
  context.get()->AddMetadata("hasleader", "true");
  const auto stream = etcdserverpb::Watch::Stub(to).Watch(context.get());
  etcdserverpb::WatchRequest create;
  etcdserverpb::WatchCreateRequest& wanted = *create.mutable_create_request();
  wanted.set_key(prefix);
  wanted.set_range_end(EndOfPrefix(prefix));
  wanted.set_start_revision(revision);
  wanted.set_progress_notify(true);
  std::atomic<SteadyInstant::rep> heard =
      SteadyNow().time_since_epoch().count();
  absl::Status ended = absl::UnavailableError("etcd: the watch ended");
  if (stream->Write(create)) {
    etcdserverpb::WatchRequest progress;
    progress.mutable_progress_request();
    const Periodic ask(silence / 3, [&] {
      const SteadyInstant last{SteadyInstant::duration(heard.load())};
      if (ElapsedSince(last) > silence) {
        context.get()->TryCancel();
      } else {
        stream->Write(progress);
      }
    });
    etcdserverpb::WatchResponse response;
    while (stream->Read(&response)) {
      heard = SteadyNow().time_since_epoch().count();
      ended = event(response);
      if (!ended.ok()) break;
      ended = absl::UnavailableError("etcd: the watch ended");
    }
    context.get()->TryCancel();
  }
  const grpc::Status status = stream->Finish();
  if (absl::IsUnavailable(ended)) {
    Rotate(turn);
    if (!status.ok()) return FromGrpc(status);
  }
  return ended;
}

void EtcdClient::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* const context : contexts_) context->TryCancel();
}

}  // namespace planb::server
