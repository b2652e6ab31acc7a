// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/table_file_writer.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace planb {

absl::Status TableFileWriter::Begin(const TableFileHeader& header) {
  ABSL_RAW_CHECK(!begun_, "a table file begun twice");
  begun_ = true;
  if (header.digest.size() != kTableFileDigestSize) {
    return status_ = absl::InvalidArgumentError(
               absl::StrCat("a digest of ", header.digest.size(),
                            " bytes, not ", kTableFileDigestSize));
  }
  std::string preamble(kTableFileMagic);
  AppendLittle(kTableFileVersion, preamble);
  status_ = Put(preamble);
  return status_.ok() ? AddToBlock(TableFileBlock::kHeader, header) : status_;
}

absl::Status TableFileWriter::Add(const NextHop& next_hop) {
  return AddOrdered(TableFileBlock::kNextHops, next_hop);
}

absl::Status TableFileWriter::Add(const NextHopGroup& group) {
  return AddOrdered(TableFileBlock::kGroups, group);
}

absl::Status TableFileWriter::Add(const Route& route) {
  return AddOrdered(route.prefix.family() == Family::kIpv4
                        ? TableFileBlock::kIpv4Routes
                        : TableFileBlock::kIpv6Routes,
                    route);
}

absl::Status TableFileWriter::Finish() {
  ABSL_RAW_CHECK(begun_ && !finished_, "a table file finished out of turn");
  finished_ = true;
  if (status_.ok()) status_ = Flush();
  if (!status_.ok()) return status_;
  status_ = AddToBlock(TableFileBlock::kEnd,
                       TableFileEnd{order_.counts(), checksum_.Value()});
  return status_.ok() ? status_ = Flush() : status_;
}

template <typename Item>
absl::Status TableFileWriter::AddOrdered(TableFileBlock type,
                                         const Item& item) {
  ABSL_RAW_CHECK(begun_ && !finished_, "added to a table file out of turn");
  if (!status_.ok()) return status_;
  status_ = order_.Accept(item);
  return status_.ok() ? AddToBlock(type, item) : status_;
}

template <typename Item>
absl::Status TableFileWriter::AddToBlock(TableFileBlock type,
                                         const Item& item) {
  if (type != type_) {
    status_ = Flush();
    if (!status_.ok()) return status_;
    type_ = type;
  }
  const size_t before = payload_.size();
  AppendItem(item, payload_);
  if (payload_.size() <= kMaxTableFileBlock) return absl::OkStatus();
  // It opens the next block.
  std::string next = payload_.substr(before);
  payload_.resize(before);
  status_ = Flush();
  if (status_.ok() && next.size() > kMaxTableFileBlock) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("an item of ", next.size(), " bytes; the limit is ",
                     kMaxTableFileBlock));
  }
  if (status_.ok()) payload_ = std::move(next);
  return status_;
}

absl::Status TableFileWriter::Flush() {
  if (payload_.empty()) return absl::OkStatus();
  frame_.clear();
  AppendLittle(static_cast<uint32_t>(type_), frame_);
  AppendLittle(static_cast<uint32_t>(payload_.size()), frame_);
  frame_ += payload_;
  AppendLittle(Xxh3(frame_, ordinal_), frame_);
  payload_.clear();
  ++ordinal_;
  return Put(frame_);
}

absl::Status TableFileWriter::Put(absl::string_view bytes) {
  checksum_.Add(bytes);
  bytes_ += bytes.size();
  return output_(bytes);
}

}  // namespace planb
