// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/table_file.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace planb {

uint64_t Xxh3(absl::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  ABSL_RAW_CHECK(state_ != nullptr, "no memory");
  XXH3_64bits_reset(state_.get());
}

void Xxh3Stream::Add(absl::string_view bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t Xxh3Stream::Value() const { return XXH3_64bits_digest(state_.get()); }

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

namespace {

constexpr absl::string_view kNextHop = "next hop";

// The bytes of a prefix of `length` bits.
constexpr size_t PrefixBytes(int length) {
  return (static_cast<size_t>(length) + 7) / 8;
}

bool ReadText(ByteCursor& cursor, std::string& text) {
  uint16_t size = 0;
  absl::string_view bytes;
  if (!cursor.ReadLittle(&size) || !cursor.Read(size, &bytes)) return false;
  text.assign(bytes.data(), bytes.size());
  return true;
}

absl::Status Malformed(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the ", what, " ", why));
}

absl::Status Cut(absl::string_view what) {
  return Malformed(what, "goes on past the end of its block");
}

absl::Status CheckId(NextHopId id, absl::string_view what) {
  if (IsNextHop(id)) return absl::OkStatus();
  return Malformed(what, absl::StrCat("has the reserved next hop ", id));
}

void AppendField(uint32_t field, std::string& out) { AppendLittle(field, out); }

void AppendField(absl::string_view field, std::string& out) {
  AppendLittle(static_cast<uint16_t>(field.size()), out);
  out.append(field.data(), field.size());
}

void AppendField(const std::optional<Address>& field, std::string& out) {
  const std::string packed = field ? field->ToPacked() : "";
  AppendLittle(static_cast<uint8_t>(packed.size()), out);
  out += packed;
}

absl::Status ReadField(ByteCursor& cursor, uint32_t& field) {
  return cursor.ReadLittle(&field) ? absl::OkStatus() : Cut(kNextHop);
}

absl::Status ReadField(ByteCursor& cursor, std::string& field) {
  return ReadText(cursor, field) ? absl::OkStatus() : Cut(kNextHop);
}

absl::Status ReadField(ByteCursor& cursor, std::optional<Address>& field) {
  uint8_t size = 0;
  absl::string_view packed;
  if (!cursor.ReadLittle(&size) || !cursor.Read(size, &packed)) {
    return Cut(kNextHop);
  }
  field.reset();
  if (size == 0) return absl::OkStatus();
  const absl::StatusOr<Address> address = Address::FromPacked(packed);
  if (!address.ok()) {
    return Malformed(kNextHop, absl::StrCat("has a gateway of ", size,
                                            " bytes, not 4, 16 or none"));
  }
  field = *address;
  return absl::OkStatus();
}

}  // namespace

void AppendItem(const TableFileHeader& header, std::string& out) {
  AppendLittle(header.generation, out);
  out += header.digest;
  AppendField(header.table, out);
}

void AppendItem(const NextHop& next_hop, bool attributes, std::string& out) {
  NextHop::ForEachField(
      next_hop, [&](auto, const auto& field) { AppendField(field, out); });
  if (attributes) AppendField(next_hop.attributes.encoded(), out);
}

void AppendItem(const NextHopGroup& group, std::string& out) {
  AppendLittle(group.id, out);
  AppendLittle(static_cast<uint16_t>(group.members.size()), out);
  for (const NextHopGroup::Member& member : group.members) {
    AppendLittle(member.next_hop, out);
    AppendLittle(member.weight, out);
  }
  AppendField(group.label, out);
}

void AppendItem(const Route& route, std::string& out) {
  AppendLittle(route.next_hop, out);
  AppendLittle(static_cast<uint8_t>(route.prefix.length()), out);
  out.append(route.prefix.address().ToPacked(), 0,
             PrefixBytes(route.prefix.length()));
}

void AppendItem(const TableFileEnd& end, std::string& out) {
  AppendLittle(end.counts.next_hops, out);
  AppendLittle(end.counts.groups, out);
  AppendLittle(end.counts.ipv4_routes, out);
  AppendLittle(end.counts.ipv6_routes, out);
  AppendLittle(end.checksum, out);
}

absl::Status ReadItem(ByteCursor& cursor, TableFileHeader& header) {
  absl::string_view digest;
  if (!cursor.ReadLittle(&header.generation) ||
      !cursor.Read(kTableFileDigestSize, &digest) ||
      !ReadText(cursor, header.table)) {
    return Cut("header");
  }
  header.digest.assign(digest.data(), digest.size());
  return absl::OkStatus();
}

absl::Status ReadItem(ByteCursor& cursor, bool attributes, NextHop& next_hop) {
  absl::Status status;
  NextHop::ForEachField(next_hop, [&](auto, auto& field) {
    if (status.ok()) status = ReadField(cursor, field);
  });
  std::string encoded;
  if (attributes && status.ok()) status = ReadField(cursor, encoded);
  next_hop.attributes = Attributes(encoded);
  return status.ok() ? CheckId(next_hop.id, kNextHop) : status;
}

absl::Status ReadItem(ByteCursor& cursor, NextHopGroup& group) {
  constexpr absl::string_view kName = "next-hop group";
  uint16_t members = 0;
  if (!cursor.ReadLittle(&group.id) || !cursor.ReadLittle(&members)) {
    return Cut(kName);
  }
  group.members.clear();
  for (size_t i = 0; i < members; ++i) {
    NextHopGroup::Member member;
    if (!cursor.ReadLittle(&member.next_hop) ||
        !cursor.ReadLittle(&member.weight)) {
      return Cut(kName);
    }
    absl::Status status = CheckId(member.next_hop, kName);
    if (!status.ok()) return status;
    group.members.push_back(member);
  }
  if (!ReadText(cursor, group.label)) return Cut(kName);
  return CheckId(group.id, kName);
}

absl::Status ReadItem(ByteCursor& cursor, Family family, Route& route) {
  constexpr absl::string_view kName = "route";
  uint8_t length = 0;
  if (!cursor.ReadLittle(&route.next_hop) || !cursor.ReadLittle(&length)) {
    return Cut(kName);
  }
  if (length > AddressBits(family)) {
    return Malformed(kName, absl::StrCat("is an ", FamilyName(family),
                                         " prefix of length ", length));
  }
  absl::string_view bytes;
  if (!cursor.Read(PrefixBytes(length), &bytes)) return Cut(kName);
  char packed[16] = {};
  std::copy(bytes.begin(), bytes.end(), packed);
  const absl::StatusOr<Prefix> prefix =
      Prefix::Create(*Address::FromPacked(absl::string_view(
                         packed, static_cast<size_t>(AddressBytes(family)))),
                     length);
  if (!prefix.ok()) {
    return Malformed(kName,
                     absl::StrCat("is none: ", prefix.status().message()));
  }
  route.prefix = *prefix;
  return CheckId(route.next_hop, kName);
}

absl::Status ReadItem(ByteCursor& cursor, TableFileEnd& end) {
  if (!cursor.ReadLittle(&end.counts.next_hops) ||
      !cursor.ReadLittle(&end.counts.groups) ||
      !cursor.ReadLittle(&end.counts.ipv4_routes) ||
      !cursor.ReadLittle(&end.counts.ipv6_routes) ||
      !cursor.ReadLittle(&end.checksum)) {
    return Cut("end");
  }
  return absl::OkStatus();
}

absl::Status TableFileOrder::Accept(const NextHop& next_hop) {
  if (counts_.groups > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("next hop ", next_hop.id, " comes after a group"));
  }
  absl::Status status = AcceptId(next_hop.id, "next hop");
  if (status.ok()) ++counts_.next_hops;
  return status;
}

absl::Status TableFileOrder::Accept(const NextHopGroup& group) {
  // Ids of groups are ordered among themselves.
  if (counts_.groups == 0) last_id_ = kNoRoute;
  absl::Status status = AcceptId(group.id, "group");
  if (status.ok()) ++counts_.groups;
  return status;
}

absl::Status TableFileOrder::AcceptId(NextHopId id, absl::string_view what) {
  if (last_prefix_) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " comes after a route"));
  }
  if (!IsNextHop(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " has a reserved id"));
  }
  if (id <= last_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " comes after ", what, " ", last_id_));
  }
  last_id_ = id;
  return absl::OkStatus();
}

absl::Status TableFileOrder::Accept(const Route& route) {
  if (!IsNextHop(route.next_hop)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the route of ", route.prefix.ToString(),
                     " has the reserved next hop ", route.next_hop));
  }
  if (last_prefix_ && route.prefix <= *last_prefix_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the route of ", route.prefix.ToString(),
                     " comes after that of ", last_prefix_->ToString()));
  }
  last_prefix_ = route.prefix;
  ++(route.prefix.family() == Family::kIpv4 ? counts_.ipv4_routes
                                            : counts_.ipv6_routes);
  return absl::OkStatus();
}

absl::Status TableFileWriter::Begin(const TableFileHeader& header) {
  ABSL_RAW_CHECK(!begun_, "a table file begun twice");
  begun_ = true;
  if (header.digest.size() != kTableFileDigestSize) {
    return status_ = absl::InvalidArgumentError(
               absl::StrCat("a digest of ", header.digest.size(),
                            " bytes, not ", kTableFileDigestSize));
  }
  attributes_ = header.attributes;
  std::string preamble(kTableFileMagic);
  AppendLittle(
      attributes_ ? kTableFileVersionWithAttributes : kTableFileVersion,
      preamble);
  status_ = Put(preamble);
  return status_.ok() ? AddToBlock(TableFileBlock::kHeader, header) : status_;
}

absl::Status TableFileWriter::Add(const NextHop& next_hop) {
  if (status_.ok() && !attributes_ && !next_hop.attributes.empty()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "next hop ", next_hop.id, " has attributes, which the header denies"));
  }
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
  if constexpr (std::is_same_v<Item, NextHop>) {
    AppendItem(item, attributes_, payload_);
  } else {
    AppendItem(item, payload_);
  }
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
  if (version > kTableFileVersionWithAttributes) {
    return absl::UnimplementedError(
        absl::StrCat("a table file of format version ", version,
                     ", newer than this program, which reads versions up to ",
                     kTableFileVersionWithAttributes));
  }
  attributes_ = version == kTableFileVersionWithAttributes;
  if (version < kTableFileVersion) {
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
  // Checked before the block is read, since a damaged type must not choose how
  // its payload is read.
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
      return OnItems(payload, &TableFileSink::OnNextHop, attributes_);
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
  header.attributes = attributes_;
  return sink_.OnHeader(header);
}

template <typename Item, typename... Form>
absl::Status TableFileReader::OnItems(
    absl::string_view payload,
    absl::Status (TableFileSink::*deliver)(const Item&), Form... form) {
  for (ByteCursor cursor(payload); !cursor.empty();) {
    Item item;
    absl::Status status = ReadItem(cursor, form..., item);
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
