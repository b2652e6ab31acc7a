// Server streams that show an immutable list in chunks: one chunk is built and
// written at a time, so a slow reader costs one chunk and the list it pins.

#ifndef PLANB_SERVER_LIST_STREAM_H_
#define PLANB_SERVER_LIST_STREAM_H_

#include <functional>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "server/in_flight.h"

namespace planb::server {

// Writes chunks until `next` says there are no more. Deletes itself.
template <typename Chunk>
class ListStream final : public grpc::ServerWriteReactor<Chunk> {
 public:
  // Fills an empty chunk; false if there was nothing left to put into it.
  using Next = std::function<bool(Chunk&)>;

  // Counted in `in_flight`, which outlives this, from before it was made.
  ListStream(InFlight& in_flight, Next next)
      : in_flight_(in_flight), next_(std::move(next)) {
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      WriteNext();
    } else {
      this->Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override {
    in_flight_.End();
    delete this;
  }

 private:
  void WriteNext() {
    chunk_.Clear();
    if (next_(chunk_)) {
      this->StartWrite(&chunk_);
    } else {
      this->Finish(grpc::Status::OK);
    }
  }

  InFlight& in_flight_;
  Next next_;
  Chunk chunk_;
};

// Ends the call with an error at once. Deletes itself.
template <typename Chunk>
class RefusedStream final : public grpc::ServerWriteReactor<Chunk> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LIST_STREAM_H_
