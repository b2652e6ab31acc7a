// SPDX-License-Identifier: Apache-2.0

// One loop feeds either codec: a member is started, stepped until it ends, and
// the next begins. A codec only wraps its library's three calls.

#include "lpm/io/decompress.h"

#include <bzlib.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb {
namespace {

constexpr size_t kInputBuffer = 64 << 10;
constexpr absl::string_view kGzipMagic = "\x1f\x8b";
constexpr absl::string_view kBzip2Magic = "BZh";

// Both libraries count in 32-bit unsigned.
unsigned int ClampSize(size_t size) {
  return static_cast<unsigned int>(std::min<size_t>(size, UINT_MAX));
}

// What a step of a codec came to.
enum class Step { kMore, kMemberEnd, kCorrupt, kNoMemory };

// Decodes one member at a time. Start, then Decode until it says something
// other than kMore, then Finish.
class Gzip {
 public:
  static constexpr absl::string_view kName = "gzip";

  Step Start() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    stream_ = {};
    return inflateInit2(&stream_, kGzipOnly) == Z_OK ? Step::kMore
                                                     : Step::kNoMemory;
  }

  // Takes bytes from the front of `*in`, writes at most `size` to `out`, sets
  // `*produced`.
  Step Decode(absl::string_view* in, char* out, size_t size, size_t* produced) {
    const unsigned int available = ClampSize(in->size());
    const unsigned int room = ClampSize(size);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in->data()));
    stream_.avail_in = available;
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_SYNC_FLUSH);
    in->remove_prefix(available - stream_.avail_in);
    *produced = room - stream_.avail_out;
    switch (code) {
      case Z_OK:
      case Z_BUF_ERROR:  // wants more of either side
        return Step::kMore;
      case Z_STREAM_END:
        return Step::kMemberEnd;
      case Z_MEM_ERROR:
        return Step::kNoMemory;
      default:
        return Step::kCorrupt;
    }
  }

  void Finish() { inflateEnd(&stream_); }

 private:
  z_stream stream_;
};

class Bzip2 {
 public:
  static constexpr absl::string_view kName = "bzip2";

  Step Start() {
    stream_ = {};
    return BZ2_bzDecompressInit(&stream_, /*verbosity=*/0, /*small=*/0) == BZ_OK
               ? Step::kMore
               : Step::kNoMemory;
  }

  Step Decode(absl::string_view* in, char* out, size_t size, size_t* produced) {
    const unsigned int available = ClampSize(in->size());
    const unsigned int room = ClampSize(size);
    stream_.next_in = const_cast<char*>(in->data());
    stream_.avail_in = available;
    stream_.next_out = out;
    stream_.avail_out = room;
    const int code = BZ2_bzDecompress(&stream_);
    in->remove_prefix(available - stream_.avail_in);
    *produced = room - stream_.avail_out;
    switch (code) {
      case BZ_OK:
        return Step::kMore;
      case BZ_STREAM_END:
        return Step::kMemberEnd;
      case BZ_MEM_ERROR:
        return Step::kNoMemory;
      default:
        return Step::kCorrupt;
    }
  }

  void Finish() { BZ2_bzDecompressEnd(&stream_); }

 private:
  bz_stream stream_;
};

// Invariants: `pending_` is the part of `buffer_` not yet decoded; the codec is
// started if and only if `in_member_`.
template <typename Codec>
class DecompressingSource : public ByteSource {
 public:
  explicit DecompressingSource(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)) {}
  ~DecompressingSource() override {
    if (in_member_) codec_.Finish();
  }
  DecompressingSource(const DecompressingSource&) = delete;
  DecompressingSource& operator=(const DecompressingSource&) = delete;

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    while (status_.ok()) {
      if (pending_.empty() && !end_of_source_) {
        status_ = Refill();
        if (!status_.ok()) break;
      }
      if (!in_member_) {
        if (pending_.empty()) return 0;
        if (codec_.Start() != Step::kMore) {
          status_ = NoMemory();
          break;
        }
        in_member_ = true;
        ++members_;
      }
      size_t produced = 0;
      const size_t before = pending_.size();
      Settle(codec_.Decode(&pending_, out, size, &produced),
             /*progress=*/produced > 0 || pending_.size() < before);
      if (produced > 0) return produced;
    }
    return status_;
  }

 private:
  absl::Status Refill() {
    absl::StatusOr<size_t> count = source_->Read(buffer_.data(), kInputBuffer);
    if (!count.ok()) return count.status();
    pending_ = absl::string_view(buffer_.data(), *count);
    end_of_source_ = *count == 0;
    return absl::OkStatus();
  }

  // Draws the consequences of a step; an error waits in `status_` until what
  // came before it has been returned.
  void Settle(Step step, bool progress) {
    if (step == Step::kMore && !progress && end_of_source_) {
      status_ = absl::DataLossError(
          absl::StrCat("the ", Codec::kName, " data end in the middle"));
    } else if (step == Step::kCorrupt) {
      status_ = absl::DataLossError(
          absl::StrCat("the ", Codec::kName, " data are corrupt",
                       members_ > 1 ? ", or something else follows them" : ""));
    } else if (step == Step::kNoMemory) {
      status_ = NoMemory();
    }
    if (step != Step::kMore) {
      codec_.Finish();
      in_member_ = false;
    }
  }

  static absl::Status NoMemory() {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a ", Codec::kName, " decompressor"));
  }

  const std::unique_ptr<ByteSource> source_;
  std::array<char, kInputBuffer> buffer_;
  absl::string_view pending_;
  bool end_of_source_ = false;
  Codec codec_;
  bool in_member_ = false;
  uint64_t members_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(
    std::unique_ptr<ByteSource> source) {
  // A bzip2 header is the magic and a digit.
  std::string head(kBzip2Magic.size() + 1, '\0');
  size_t size = 0;
  while (size < head.size()) {
    absl::StatusOr<size_t> count =
        source->Read(head.data() + size, head.size() - size);
    if (!count.ok()) return count.status();
    if (*count == 0) break;
    size += *count;
  }
  head.resize(size);
  const bool gzip = absl::StartsWith(head, kGzipMagic);
  const bool bzip2 = absl::StartsWith(head, kBzip2Magic) && size == 4 &&
                     head[3] >= '1' && head[3] <= '9';
  source = ConcatenatedSource(std::move(head), std::move(source));
  if (gzip) {
    return std::make_unique<DecompressingSource<Gzip>>(std::move(source));
  }
  if (bzip2) {
    return std::make_unique<DecompressingSource<Bzip2>>(std::move(source));
  }
  return source;
}

}  // namespace planb
