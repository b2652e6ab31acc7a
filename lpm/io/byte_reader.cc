#include "lpm/io/byte_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/statusor.h"

namespace planb {
namespace {

constexpr size_t kChunk = 32 << 10;

}  // namespace

ByteReader::ByteReader(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), buffer_(kChunk, '\0') {}

absl::string_view ByteReader::Peek(size_t count) {
  while (end_ - begin_ < count && Fill()) {
  }
  return absl::string_view(buffer_.data() + begin_, end_ - begin_);
}

void ByteReader::Consume(size_t count) {
  ABSL_RAW_CHECK(count <= end_ - begin_, "consumed more than was peeked at");
  begin_ += count;
  offset_ += count;
}

bool ByteReader::Skip(uint64_t count) {
  while (count > 0) {
    const size_t step =
        static_cast<size_t>(std::min<uint64_t>(count, Peek(1).size()));
    if (step == 0) return false;
    Consume(step);
    count -= step;
  }
  return true;
}

bool ByteReader::Fill() {
  if (ended_) return false;
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) {
    // Full: slide what is left to the front, or double if it fills most.
    const size_t left = end_ - begin_;
    if (left > buffer_.size() / 2) buffer_.resize(2 * buffer_.size());
    std::memmove(buffer_.data(), buffer_.data() + begin_, left);
    begin_ = 0;
    end_ = left;
  }
  absl::StatusOr<size_t> count =
      source_->Read(buffer_.data() + end_, buffer_.size() - end_);
  if (!count.ok()) status_ = count.status();
  ended_ = !count.ok() || *count == 0;
  if (ended_) return false;
  end_ += *count;
  return true;
}

}  // namespace planb
