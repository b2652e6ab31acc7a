// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/byte_source.h"

#include <bzlib.h>
#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb {
namespace {

constexpr size_t kChunk = 32 << 10;

absl::Status FileError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// Reads with read(2) and has no buffer: ByteReader has one. Invariant: `fd_` is
// open for reading.
class FileSource : public ByteSource {
 public:
  FileSource(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~FileSource() override { close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    if (!status_.ok()) return status_;
    for (;;) {
      const ssize_t count = read(fd_, out, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) return status_ = FileError(path_, errno);
    }
  }

 private:
  const std::string path_;
  const int fd_;
  absl::Status status_;
};

// Counts what is read of a source.
class CountedSource : public ByteSource {
 public:
  explicit CountedSource(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)) {}

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const absl::StatusOr<size_t> count = source_->Read(out, size);
    bytes_ += count.value_or(0);
    return count;
  }

  uint64_t bytes() const { return bytes_; }

 private:
  const std::unique_ptr<ByteSource> source_;
  uint64_t bytes_ = 0;
};

// The bytes of `head`, in pieces of at most `piece`, then those of `tail`.
class Concatenated : public ByteSource {
 public:
  Concatenated(std::string head, size_t piece, std::unique_ptr<ByteSource> tail)
      : head_(std::move(head)), piece_(piece), tail_(std::move(tail)) {}

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const size_t count = std::min({size, piece_, head_.size() - position_});
    if (count == 0 && tail_ != nullptr) return tail_->Read(out, size);
    std::memcpy(out, head_.data() + position_, count);
    position_ += count;
    return count;
  }

 private:
  const std::string head_;
  const size_t piece_;
  size_t position_ = 0;                     // in head_
  const std::unique_ptr<ByteSource> tail_;  // may be null
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, errno);
  return std::make_unique<FileSource>(path, fd);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenStandardInput() {
  const std::string name = "the standard input";
  const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return FileError(name, errno);
  return std::make_unique<FileSource>(name, fd);
}

std::unique_ptr<ByteSource> StringSource(std::string contents, size_t piece) {
  return std::make_unique<Concatenated>(std::move(contents), piece, nullptr);
}

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
    // The buffer is full: move the rest to the front, and double the buffer if
    // the rest fills more than half of it.
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

namespace {

constexpr size_t kInputBuffer = 64 << 10;
constexpr absl::string_view kGzipMagic = "\x1f\x8b";
constexpr absl::string_view kBzip2Magic = "BZh";
// The first four of its six bytes.
constexpr absl::string_view kXzMagic = "\xfd\x37zX";
constexpr absl::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
// Of a frame that is skipped: after a byte of 0x50 to 0x5f.
constexpr absl::string_view kZstdSkippable = "\x2a\x4d\x18";
// What a decompressor may take. "xz -9" takes 65 MiB, "zstd -19" 8.
constexpr int kWindowLog = 27;
constexpr size_t kMaxMemory = size_t{1} << kWindowLog;
// What a file may become. The text of a table whose prefixes count up takes a
// thousandth as xz; of bzip2 a kilobyte may be gigabytes.
constexpr uint64_t kMostExpansion = 1000;
constexpr uint64_t kAlwaysExpands = 64 << 20;

// zlib and libbz2 count in 32-bit unsigned.
unsigned int ClampSize(size_t size) {
  return static_cast<unsigned int>(std::min<size_t>(size, UINT_MAX));
}

// The result of a step of a codec.
enum class Step { kMore, kMemberEnd, kCorrupt, kNoMemory, kTooLarge };

// How a library decodes one member: Start, then Decode from the stream's input
// to its output until it returns something other than kMore, then Finish.
struct Gzip {
  using Stream = z_stream;
  static constexpr absl::string_view kName = "gzip";

  static bool Start(Stream* stream) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    return inflateInit2(stream, kGzipOnly) == Z_OK;
  }
  static Step Decode(Stream* stream) {
    switch (inflate(stream, Z_SYNC_FLUSH)) {
      case Z_OK:
      case Z_BUF_ERROR:  // needs more input or more room
        return Step::kMore;
      case Z_STREAM_END:
        return Step::kMemberEnd;
      case Z_MEM_ERROR:
        return Step::kNoMemory;
      default:
        return Step::kCorrupt;
    }
  }
  static void Finish(Stream* stream) { inflateEnd(stream); }
};

struct Bzip2 {
  using Stream = bz_stream;
  static constexpr absl::string_view kName = "bzip2";

  static bool Start(Stream* stream) {
    return BZ2_bzDecompressInit(stream, /*verbosity=*/0, /*small=*/0) == BZ_OK;
  }
  static Step Decode(Stream* stream) {
    switch (BZ2_bzDecompress(stream)) {
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
  static void Finish(Stream* stream) { BZ2_bzDecompressEnd(stream); }
};

struct Xz {
  using Stream = lzma_stream;
  static constexpr absl::string_view kName = "xz";

  static bool Start(Stream* stream) {
    return lzma_stream_decoder(stream, kMaxMemory, /*flags=*/0) == LZMA_OK;
  }
  static Step Decode(Stream* stream) {
    switch (lzma_code(stream, LZMA_RUN)) {
      case LZMA_OK:
      case LZMA_BUF_ERROR:  // needs more input or more room
        return Step::kMore;
      case LZMA_STREAM_END:
        return Step::kMemberEnd;
      case LZMA_MEM_ERROR:
        return Step::kNoMemory;
      case LZMA_MEMLIMIT_ERROR:
        return Step::kTooLarge;
      default:
        return Step::kCorrupt;
    }
  }
  static void Finish(Stream* stream) { lzma_end(stream); }
};

struct Zstd {
  struct Stream {
    ZSTD_DStream* decoder;
    char* next_in;
    size_t avail_in;
    char* next_out;
    size_t avail_out;
    size_t wanted;  // to the end of the block
    bool full;      // the decoder may have more of the block
  };
  static constexpr absl::string_view kName = "zstd";
  static constexpr size_t kBlockHeader = 3;

  static bool Start(Stream* stream) {
    stream->decoder = ZSTD_createDStream();
    if (stream->decoder == nullptr) return false;
    stream->wanted = ZSTD_initDStream(stream->decoder);
    return ZSTD_isError(ZSTD_DCtx_setParameter(
               stream->decoder, ZSTD_d_windowLogMax, kWindowLog)) == 0;
  }
  // Of a call that meets a corrupt block nothing comes out, also of the blocks
  // before it. Each call gets one block, without the header of the next one,
  // which zstd asks for with it.
  static Step Decode(Stream* stream) {
    const bool flush = stream->full;
    ZSTD_inBuffer in = {stream->next_in,
                        flush ? 0 : std::min(stream->avail_in, stream->wanted),
                        0};
    ZSTD_outBuffer out = {stream->next_out, stream->avail_out, 0};
    const size_t left = ZSTD_decompressStream(stream->decoder, &out, &in);
    stream->wanted = left > kBlockHeader ? left - kBlockHeader : left;
    stream->full = out.pos == out.size;
    if (flush && out.pos == 0 && left > 0) return Decode(stream);
    stream->avail_in -= in.pos;
    stream->avail_out -= out.pos;
    if (left == 0) return Step::kMemberEnd;
    if (ZSTD_isError(left) == 0) return Step::kMore;
    switch (ZSTD_getErrorCode(left)) {
      case ZSTD_error_memory_allocation:
        return Step::kNoMemory;
      case ZSTD_error_frameParameter_windowTooLarge:
        return Step::kTooLarge;
      default:
        return Step::kCorrupt;
    }
  }
  static void Finish(Stream* stream) { ZSTD_freeDStream(stream->decoder); }
};

// Feeds a codec: starts a member, decodes until it ends, starts the next.
// Invariants: `pending_` is the part of `buffer_` not yet decoded; `stream_` is
// started if and only if `in_member_`.
template <typename Codec>
class DecompressingSource : public ByteSource {
 public:
  // `file` is what `source` reads in the end.
  DecompressingSource(std::unique_ptr<ByteSource> source,
                      const CountedSource& file)
      : source_(std::move(source)), file_(file) {}
  ~DecompressingSource() override {
    if (in_member_) Codec::Finish(&stream_);
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
        if (members_ > 0) SkipPadding();
        if (pending_.empty() && !end_of_source_) continue;
        if (pending_.empty()) return 0;
        stream_ = {};
        if (!Codec::Start(&stream_)) {
          Codec::Finish(&stream_);
          status_ = NoMemory();
          break;
        }
        in_member_ = true;
        ++members_;
      }
      const size_t produced = Decode(out, size);
      produced_ += produced;
      if (status_.ok() &&
          produced_ > kAlwaysExpands + kMostExpansion * file_.bytes()) {
        status_ = absl::ResourceExhaustedError(
            absl::StrCat("the ", Codec::kName, " data become more than ",
                         kMostExpansion, " times as large as the file"));
      }
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

  void SkipPadding() {
    pending_.remove_prefix(
        std::min(pending_.find_first_not_of('\0'), pending_.size()));
  }

  // Takes bytes from the front of `pending_` and writes at most `size` to
  // `out`. Returns how many. An error stays in `status_` until the bytes before
  // it have been returned.
  size_t Decode(char* out, size_t size) {
    const unsigned int available = ClampSize(pending_.size());
    const unsigned int room = ClampSize(size);
    using Bytes = decltype(stream_.next_out);
    stream_.next_in =
        reinterpret_cast<Bytes>(const_cast<char*>(pending_.data()));
    stream_.avail_in = available;
    stream_.next_out = reinterpret_cast<Bytes>(out);
    stream_.avail_out = room;
    const Step step = Codec::Decode(&stream_);
    const size_t consumed = available - stream_.avail_in;
    const size_t produced = room - stream_.avail_out;
    pending_.remove_prefix(consumed);
    if (step == Step::kMore && consumed + produced == 0 && end_of_source_) {
      status_ = DataLoss("end in the middle");
    } else if (step == Step::kCorrupt) {
      status_ = DataLoss("are corrupt");
    } else if (step == Step::kNoMemory) {
      status_ = NoMemory();
    } else if (step == Step::kTooLarge) {
      status_ = absl::ResourceExhaustedError(
          absl::StrCat("the ", Codec::kName, " data take more than ",
                       kMaxMemory >> 20, " MiB to decompress"));
    }
    if (step != Step::kMore) {
      Codec::Finish(&stream_);
      in_member_ = false;
    }
    return produced;
  }

  absl::Status DataLoss(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat("the ", Codec::kName, " data ", what,
                     members_ > 1 ? ", or something else follows them" : ""));
  }

  static absl::Status NoMemory() {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a ", Codec::kName, " decompressor"));
  }

  const std::unique_ptr<ByteSource> source_;
  const CountedSource& file_;
  uint64_t produced_ = 0;
  std::array<char, kInputBuffer> buffer_;
  absl::string_view pending_;
  bool end_of_source_ = false;
  typename Codec::Stream stream_;
  bool in_member_ = false;
  uint64_t members_ = 0;
  absl::Status status_;
};

}  // namespace

namespace {

// The first bytes of `source`, at most `size`, which it returns again.
// Errors: those of source->Read, which it also returns again.
absl::StatusOr<std::string> PeekAt(std::unique_ptr<ByteSource>& source,
                                   size_t size) {
  std::string head(size, '\0');
  size_t filled = 0;
  absl::StatusOr<size_t> count = 0;
  while (filled < size) {
    count = source->Read(head.data() + filled, size - filled);
    if (!count.ok() || *count == 0) break;
    filled += *count;
  }
  head.resize(filled);
  source = std::make_unique<Concatenated>(head, SIZE_MAX, std::move(source));
  if (!count.ok()) return count.status();
  return head;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(
    std::unique_ptr<ByteSource> source) {
  auto counted = std::make_unique<CountedSource>(std::move(source));
  const CountedSource& file = *counted;
  source = std::move(counted);
  // A gzip of a gzip is a common accident, more layers are none.
  for (int layer = 0; layer < 2; ++layer) {
    // All magics have four bytes at most; bzip2's has a digit after it.
    const absl::StatusOr<std::string> head =
        PeekAt(source, kBzip2Magic.size() + 1);
    if (!head.ok() && layer == 0) return head.status();
    if (!head.ok()) break;  // the reader will see it
    if (absl::StartsWith(*head, kGzipMagic)) {
      source =
          std::make_unique<DecompressingSource<Gzip>>(std::move(source), file);
    } else if (absl::StartsWith(*head, kBzip2Magic) && head->size() == 4 &&
               head->back() >= '1' && head->back() <= '9') {
      source =
          std::make_unique<DecompressingSource<Bzip2>>(std::move(source), file);
    } else if (absl::StartsWith(*head, kXzMagic)) {
      source =
          std::make_unique<DecompressingSource<Xz>>(std::move(source), file);
    } else if (absl::StartsWith(*head, kZstdMagic) ||
               (head->size() == 4 && (head->front() & 0xf0) == 0x50 &&
                head->substr(1) == kZstdSkippable)) {
      source =
          std::make_unique<DecompressingSource<Zstd>>(std::move(source), file);
    } else {
      break;
    }
  }
  return source;
}

}  // namespace planb
