// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/table_file_reader.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

constexpr size_t kPreambleSize = kTableFileMagic.size() + 4;
constexpr size_t kBlockHeadSize = 8;
constexpr size_t kChecksumSize = 8;

bool StartsAlike(absl::string_view bytes) {
  const size_t size = std::min(bytes.size(), kTableFileMagic.size());
  return bytes.substr(0, size) == kTableFileMagic.substr(0, size);
}

absl::Status NoTableFile(absl::string_view bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a table file: it starts with \"",
                   absl::CHexEscape(bytes.substr(0, kPreambleSize)), "\""));
}

}  // namespace

TableFileReader::TableFileReader(TableFileSink& sink)
    : sink_(sink), awaited_(kPreambleSize) {}

absl::Status TableFileReader::Push(absl::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const size_t size = std::min(awaited_ - held_.size(), bytes.size());
    held_.append(bytes.data(), size);
    bytes.remove_prefix(size);
    if (held_.size() == awaited_) status_ = OnHeld();
  }
  return status_;
}

absl::Status TableFileReader::Finish() {
  if (!status_.ok()) return status_;
  if (state_ == State::kDone) return status_ = sink_.OnEnd(order_.counts());
  if (state_ == State::kPreamble && !StartsAlike(held_)) {
    return status_ = NoTableFile(held_);
  }
  return status_ = Damaged(absl::StrCat("the file ends at byte ",
                                        offset_ + held_.size(),
                                        ", before its end block is complete"));
}

absl::Status TableFileReader::OnHeld() {
  switch (state_) {
    case State::kPreamble:
      return OnPreamble();
    case State::kBlockHead:
      return OnBlockHead();
    case State::kBlock:
      return OnBlock();
    case State::kDone:
      break;
  }
  return Damaged("the file goes on after its end block");
}

absl::Status TableFileReader::OnPreamble() {
  if (!StartsAlike(held_)) return NoTableFile(held_);
  ByteCursor cursor(absl::string_view(held_).substr(kTableFileMagic.size()));
  uint32_t version = 0;
  (void)cursor.ReadLittle(&version);
  if (version > kTableFileVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "a table file of format version ", version,
        ", newer than this program, which reads version ", kTableFileVersion));
  }
  if (version != kTableFileVersion) {
    return Damaged(absl::StrCat("there is no format version ", version));
  }
  checksum_.Add(held_);
  offset_ += held_.size();
  Await(State::kBlockHead, kBlockHeadSize);
  return absl::OkStatus();
}

absl::Status TableFileReader::OnBlockHead() {
  ByteCursor cursor(held_);
  uint32_t type = 0;
  uint32_t size = 0;
  (void)(cursor.ReadLittle(&type) && cursor.ReadLittle(&size));
  if (type < static_cast<uint32_t>(TableFileBlock::kHeader) ||
      type > static_cast<uint32_t>(TableFileBlock::kEnd)) {
    return Damaged(absl::StrCat("there is no block type ", type));
  }
  if (size == 0 || size > kMaxTableFileBlock) {
    return Damaged(absl::StrCat("a block of ", size, " bytes; it has 1 to ",
                                kMaxTableFileBlock));
  }
  // Checked here, not after the block, lest a damaged type read it otherwise.
  const bool first = ordinal_ == 0;
  const auto next = static_cast<TableFileBlock>(type);
  if (first != (next == TableFileBlock::kHeader) || next < type_) {
    return Damaged(absl::StrCat("a block of type ", type, " out of order"));
  }
  type_ = next;
  state_ = State::kBlock;
  awaited_ = kBlockHeadSize + size + kChecksumSize;
  return absl::OkStatus();
}

absl::Status TableFileReader::OnBlock() {
  const absl::string_view block(held_);
  const absl::string_view checked =
      block.substr(0, block.size() - kChecksumSize);
  ByteCursor cursor(block.substr(checked.size()));
  uint64_t checksum = 0;
  (void)cursor.ReadLittle(&checksum);
  if (checksum != Xxh3(checked, ordinal_)) {
    return Damaged("the block's checksum is wrong");
  }
  absl::Status status = OnPayload(checked.substr(kBlockHeadSize));
  if (!status.ok()) return status;
  checksum_.Add(block);
  offset_ += block.size();
  ++ordinal_;
  if (type_ == TableFileBlock::kEnd) {
    Await(State::kDone, 1);
  } else {
    Await(State::kBlockHead, kBlockHeadSize);
  }
  return absl::OkStatus();
}

void TableFileReader::Await(State state, size_t size) {
  held_.clear();
  state_ = state;
  awaited_ = size;
}

absl::Status TableFileReader::OnPayload(absl::string_view payload) {
  switch (type_) {
    case TableFileBlock::kHeader:
      return OnHeader(payload);
    case TableFileBlock::kNextHops:
      return OnItems(payload, &TableFileSink::OnNextHop);
    case TableFileBlock::kGroups:
      return OnItems(payload, &TableFileSink::OnGroup);
    case TableFileBlock::kIpv4Routes:
      return OnItems(payload, &TableFileSink::OnRoute, Family::kIpv4);
    case TableFileBlock::kIpv6Routes:
      return OnItems(payload, &TableFileSink::OnRoute, Family::kIpv6);
    case TableFileBlock::kEnd:
      break;
  }
  return OnEnd(payload);
}

absl::Status TableFileReader::OnHeader(absl::string_view payload) {
  ByteCursor cursor(payload);
  TableFileHeader header;
  const absl::Status status = ReadItem(cursor, header);
  if (!status.ok()) return Damaged(status.message());
  if (!cursor.empty()) return Damaged("bytes after the header");
  return sink_.OnHeader(header);
}

template <typename Item, typename... Family>
absl::Status TableFileReader::OnItems(
    absl::string_view payload,
    absl::Status (TableFileSink::*deliver)(const Item&), Family... family) {
  for (ByteCursor cursor(payload); !cursor.empty();) {
    Item item;
    absl::Status status = ReadItem(cursor, family..., item);
    if (status.ok()) status = order_.Accept(item);
    if (!status.ok()) return Damaged(status.message());
    status = (sink_.*deliver)(item);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TableFileReader::OnEnd(absl::string_view payload) {
  ByteCursor cursor(payload);
  TableFileEnd end;
  const absl::Status status = ReadItem(cursor, end);
  if (!status.ok()) return Damaged(status.message());
  if (!cursor.empty()) return Damaged("bytes after the counts");
  if (end.counts != order_.counts()) {
    return Damaged("the file does not hold as many items as it says");
  }
  if (end.checksum != checksum_.Value()) {
    return Damaged("the file's checksum is wrong");
  }
  return absl::OkStatus();
}

absl::Status TableFileReader::Damaged(absl::string_view why) const {
  return absl::DataLossError(
      state_ == State::kPreamble
          ? absl::StrCat("damaged table file: at byte 0: ", why)
          : absl::StrCat("damaged table file: at byte ", offset_, ", block ",
                         ordinal_, ": ", why));
}

}  // namespace planb
