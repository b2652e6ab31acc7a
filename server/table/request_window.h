// SPDX-License-Identifier: Apache-2.0

// Which named requests were answered, and how: a repeated one gets its first
// answer (AIP-155).

#ifndef PLANB_SERVER_TABLE_REQUEST_WINDOW_H_
#define PLANB_SERVER_TABLE_REQUEST_WINDOW_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/table/update.h"

namespace planb::server {

// The last `size` of them. Thread-compatible.
class RequestWindow {
 public:
  explicit RequestWindow(size_t size) : size_(size) {}

  // Null if it is not known. Valid until the next change.
  const AnsweredRequest* Find(absl::string_view request_id) const {
    const auto it = answers_.find(request_id);
    return it == answers_.end() ? nullptr : &it->second;
  }

  // REQUIRES: it is not known.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from.
  void Add(AnsweredRequest request) {
    if (size_ == 0) return;
    order_.push_back(request.request_id);
    answers_.emplace(order_.back(), std::move(request));
    if (order_.size() > size_) {
      answers_.erase(order_.front());
      order_.pop_front();
    }
  }

  // Corrects when the request was accepted, if it is known.
  void SetAccepted(absl::string_view request_id, absl::Time at) {
    const auto it = answers_.find(request_id);
    if (it != answers_.end()) it->second.outcome.accepted = at;
  }

  // Takes back what was added last, if it is this.
  void Undo(absl::string_view request_id) {
    if (order_.empty() || order_.back() != request_id) return;
    answers_.erase(order_.back());
    order_.pop_back();
  }

 private:
  const size_t size_;
  absl::flat_hash_map<std::string, AnsweredRequest> answers_;
  std::deque<std::string> order_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_REQUEST_WINDOW_H_
