// Order makes it simple: two counters divide the queue in its three parts.

#include "client/replay_queue.h"

#include <utility>

namespace planb::client {

void ReplayQueue::Push(std::shared_ptr<BatchInFlight> batch) {
  batches_.push_back(std::move(batch));
}

BatchInFlight* ReplayQueue::Find(uint64_t id) const {
  if (batches_.empty()) return nullptr;
  const uint64_t first = batches_.front()->expected.request_id;
  if (id < first || id - first >= batches_.size()) return nullptr;
  return batches_[id - first].get();
}

std::shared_ptr<BatchInFlight> ReplayQueue::TakeUnwritten() {
  if (written_ == batches_.size()) return nullptr;
  const std::shared_ptr<BatchInFlight>& batch = batches_[written_++];
  batch->was_written = true;
  return batch;
}

bool ReplayQueue::IsUnwritten(uint64_t id) const {
  return Find(id) != nullptr &&
         id - batches_.front()->expected.request_id >= written_;
}

bool ReplayQueue::AddReply(grpc::ByteBuffer& reply) {
  if (owed_ > 0) {
    --owed_;
    return true;
  }
  if (answered_ == written_) return false;
  batches_[answered_++]->reply.Swap(&reply);
  return true;
}

void ReplayQueue::PopFront() {
  if (answered_ > 0) {
    --answered_;
    --written_;
  } else if (written_ > 0) {
    --written_;
    ++owed_;
  }
  batches_.pop_front();
}

size_t ReplayQueue::Rewind() {
  owed_ = 0;
  written_ = answered_;
  size_t again = 0;
  for (size_t i = answered_; i < batches_.size(); ++i) {
    if (batches_[i]->was_written) ++again;
  }
  return again;
}

}  // namespace planb::client
