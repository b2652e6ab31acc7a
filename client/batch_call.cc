// SPDX-License-Identifier: Apache-2.0

// The generic stub sends and receives messages as they are.

#include "client/batch_call.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "client/call.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::client {
namespace {

// Start of the call, Write and WritesDone are one operation at a time.
void* const kWriteTag = reinterpret_cast<void*>(1);
void* const kReadTag = reinterpret_cast<void*>(2);
void* const kFinishTag = reinterpret_cast<void*>(3);
void* const kWakeTag = reinterpret_cast<void*>(4);

}  // namespace

BatchCall::BatchCall(const std::shared_ptr<grpc::Channel>& channel,
                     absl::Time deadline) {
  SetDeadline(context_, deadline);
  const std::string method =
      absl::StrCat("/", v1::RouteLookup::service_full_name(), "/BatchLookup");
  stream_ = grpc::GenericStub(channel).PrepareCall(&context_, method, &queue_);
  stream_->StartCall(kWriteTag);
  stream_->Read(&incoming_, kReadTag);
}

BatchCall::~BatchCall() {
  if (!ended_) Cancel();
  while (!ended_) Poll(absl::InfiniteFuture());
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) continue;
}

void BatchCall::Write(const grpc::ByteBuffer& message) {
  stream_->Write(message, kWriteTag);
}

void BatchCall::WritesDone() { stream_->WritesDone(kWriteTag); }

BatchCall::Event BatchCall::Poll(absl::Time until) {
  void* tag = nullptr;
  bool ok = false;
  if (until == absl::InfiniteFuture()) {
    queue_.Next(&tag, &ok);
  } else if (queue_.AsyncNext(&tag, &ok, ToGrpc(until)) !=
             grpc::CompletionQueue::GOT_EVENT) {
    return {};
  }
  Event event;
  if (tag == kWriteTag) {
    event.kind = Event::Kind::kWritten;
    event.ok = ok;
  } else if (tag == kReadTag && ok) {
    event.kind = Event::Kind::kReply;
    event.message.Swap(&incoming_);
    stream_->Read(&incoming_, kReadTag);
  } else if (tag == kReadTag) {
    stream_->Finish(&status_, kFinishTag);
  } else if (tag == kFinishTag) {
    ended_ = true;
    event.kind = Event::Kind::kEnded;
    event.status = status_;
  } else if (tag == kWakeTag) {
    alarm_set_ = false;
  }
  return event;
}

void BatchCall::Cancel() { context_.TryCancel(); }

void BatchCall::Wake() {
  if (alarm_set_.exchange(true)) return;
  alarm_.Set(&queue_, ToGrpc(MonotonicNow()), kWakeTag);
}

}  // namespace planb::client
