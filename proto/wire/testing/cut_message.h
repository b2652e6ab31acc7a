// A message in pieces, as it might be received.

#ifndef PLANB_PROTO_WIRE_TESTING_CUT_MESSAGE_H_
#define PLANB_PROTO_WIRE_TESTING_CUT_MESSAGE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/wire/octets.h"

namespace planb::wire {

// Each piece is a block of its own, so that the address sanitizer sees a reader
// that goes beyond one; an empty piece has no address at all.
class CutMessage {
 public:
  // Cut at these places; two at the same make an empty piece.
  // REQUIRES: none is beyond the end.
  CutMessage(absl::string_view message, std::vector<size_t> cuts) {
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(message.size());
    size_t begin = 0;
    for (const size_t end : cuts) {
      Add(message.substr(begin, end - begin));
      begin = end;
    }
  }

  Pieces pieces() const { return pieces_; }

 private:
  void Add(absl::string_view piece) {
    if (piece.empty()) {
      pieces_.emplace_back();
      return;
    }
    blocks_.push_back(std::make_unique<char[]>(piece.size()));
    std::copy(piece.begin(), piece.end(), blocks_.back().get());
    pieces_.emplace_back(blocks_.back().get(), piece.size());
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<absl::string_view> pieces_;
};

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_CUT_MESSAGE_H_
