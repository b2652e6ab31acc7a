// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/testing/bytes.h"

#include <arpa/inet.h>
#include <bzlib.h>
#include <lzma.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace planb {

namespace {

std::string BigEndian(uint64_t value, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = size; i-- > 0; value >>= 8) {
    bytes[i] = static_cast<char>(value & 255);
  }
  return bytes;
}

}  // namespace

std::string U8(uint64_t value) { return BigEndian(value, 1); }
std::string U16(uint64_t value) { return BigEndian(value, 2); }
std::string U32(uint64_t value) { return BigEndian(value, 4); }

std::string Packed(absl::string_view address) {
  char bytes[16];
  const std::string text(address);
  if (inet_pton(AF_INET, text.c_str(), bytes) == 1) {
    return std::string(bytes, 4);
  }
  ABSL_RAW_CHECK(inet_pton(AF_INET6, text.c_str(), bytes) == 1, text.c_str());
  return std::string(bytes, 16);
}

std::string Mrt(uint16_t type, uint16_t subtype, absl::string_view body) {
  constexpr uint32_t kTimestamp = 1785420000;
  return absl::StrCat(U32(kTimestamp), U16(type), U16(subtype),
                      U32(body.size()), body);
}

std::string TableDump(uint16_t subtype, absl::string_view body) {
  return Mrt(13, subtype, body);
}

std::string OldTableDump(absl::string_view prefix, absl::string_view peer,
                         uint16_t as_number, absl::string_view attributes) {
  const std::vector<std::string> parts = absl::StrSplit(prefix, '/');
  size_t length = 0;
  ABSL_RAW_CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &length),
                 "not a prefix");
  const std::string address = Packed(parts[0]);
  return Mrt(12, address.size() == 4 ? 1 : 2,
             absl::StrCat(U16(0), U16(7), address, U8(length), U8(1),
                          U32(1785000000), Packed(peer), U16(as_number),
                          U16(attributes.size()), attributes));
}

std::string PeerEntry(absl::string_view address, uint32_t as_number,
                      bool narrow_as, uint32_t bgp_id) {
  const std::string bytes = Packed(address);
  const int type = (bytes.size() == 16 ? 1 : 0) + (narrow_as ? 0 : 2);
  return absl::StrCat(U8(static_cast<uint64_t>(type)), U32(bgp_id), bytes,
                      narrow_as ? U16(as_number) : U32(as_number));
}

std::string PeerTableBody(const std::vector<std::string>& peers) {
  constexpr absl::string_view kView = "view";
  return absl::StrCat(U32(0xc0000202), U16(kView.size()), kView,
                      U16(peers.size()), absl::StrJoin(peers, ""));
}

std::string Attribute(uint8_t type, absl::string_view value, bool extended) {
  extended = extended || value.size() > 255;
  return absl::StrCat(U8(extended ? 0x50 : 0x40), U8(type),
                      extended ? U16(value.size()) : U8(value.size()), value);
}

std::string Origin(uint8_t origin) { return Attribute(1, U8(origin)); }

std::string AsPath(const std::vector<uint32_t>& as_numbers) {
  std::string segment = absl::StrCat(U8(2), U8(as_numbers.size()));
  for (const uint32_t number : as_numbers) segment += U32(number);
  return Attribute(2, segment);
}

std::string NextHop4(absl::string_view address) {
  return Attribute(3, Packed(address));
}

std::string MpReach(absl::string_view next_hop) {
  const std::string bytes = Packed(next_hop);
  return Attribute(14, absl::StrCat(U8(bytes.size()), bytes));
}

std::string Med(uint32_t value) { return Attribute(4, U32(value)); }
std::string LocalPref(uint32_t value) { return Attribute(5, U32(value)); }

std::string Entry(uint16_t peer, absl::string_view attributes,
                  int64_t path_id) {
  return absl::StrCat(U16(peer), U32(1785000000),
                      path_id < 0 ? "" : U32(static_cast<uint64_t>(path_id)),
                      U16(attributes.size()), attributes);
}

std::string RibBody(absl::string_view prefix,
                    const std::vector<std::string>& entries) {
  return absl::StrCat(U32(7), Nlri(prefix), U16(entries.size()),
                      absl::StrJoin(entries, ""));
}

std::string GenericBody(uint16_t family, uint8_t subsequent,
                        absl::string_view nlri,
                        const std::vector<std::string>& entries) {
  return absl::StrCat(U32(7), U16(family), U8(subsequent), nlri,
                      U16(entries.size()), absl::StrJoin(entries, ""));
}

std::string Gzip(absl::string_view plain) {
  z_stream stream = {};
  ABSL_RAW_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8,
                              Z_DEFAULT_STRATEGY) == Z_OK,
                 "deflateInit2");
  std::string out(deflateBound(&stream, plain.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<unsigned int>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<unsigned int>(out.size());
  ABSL_RAW_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Bzip2(absl::string_view plain) {
  unsigned int size =
      static_cast<unsigned int>(plain.size() + plain.size() / 50 + 600);
  std::string out(size, '\0');
  ABSL_RAW_CHECK(BZ2_bzBuffToBuffCompress(
                     out.data(), &size, const_cast<char*>(plain.data()),
                     static_cast<unsigned int>(plain.size()),
                     /*blockSize100k=*/1, 0, 0) == BZ_OK,
                 "BZ2_bzBuffToBuffCompress");
  out.resize(size);
  return out;
}

std::string Xz(absl::string_view plain) {
  std::string out(lzma_stream_buffer_bound(plain.size()), '\0');
  size_t size = 0;
  ABSL_RAW_CHECK(
      lzma_easy_buffer_encode(
          /*preset=*/6, LZMA_CHECK_CRC64, nullptr,
          reinterpret_cast<const uint8_t*>(plain.data()), plain.size(),
          reinterpret_cast<uint8_t*>(out.data()), &size, out.size()) == LZMA_OK,
      "lzma_easy_buffer_encode");
  out.resize(size);
  return out;
}

std::string Zstd(absl::string_view plain) {
  return ZstdBlocks(plain, SIZE_MAX);
}

std::string ZstdBlocks(absl::string_view plain, size_t block) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string bytes(ZSTD_compressBound(plain.size()) + plain.size(), '\0');
  ZSTD_outBuffer out = {bytes.data(), bytes.size(), 0};
  for (bool last = false; !last;) {
    const absl::string_view part = plain.substr(0, block);
    plain.remove_prefix(part.size());
    last = plain.empty();
    ZSTD_inBuffer in = {part.data(), part.size(), 0};
    const size_t left = ZSTD_compressStream2(context, &out, &in,
                                             last ? ZSTD_e_end : ZSTD_e_flush);
    ABSL_RAW_CHECK(left == 0, "ZSTD_compressStream2");
  }
  ZSTD_freeCCtx(context);
  bytes.resize(out.pos);
  return bytes;
}

std::string Nlri(absl::string_view prefix, int64_t path_id) {
  const std::vector<std::string> parts = absl::StrSplit(prefix, '/');
  size_t length = 0;
  ABSL_RAW_CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &length),
                 "not a prefix");
  return absl::StrCat(path_id < 0 ? "" : U32(static_cast<uint64_t>(path_id)),
                      U8(length), Packed(parts[0]).substr(0, (length + 7) / 8));
}

std::string BgpMessage(uint8_t type, absl::string_view body) {
  return absl::StrCat(std::string(16, '\xff'), U16(19 + body.size()), U8(type),
                      body);
}

std::string Update(absl::string_view withdrawn, absl::string_view attributes,
                   absl::string_view nlri) {
  return BgpMessage(2, absl::StrCat(U16(withdrawn.size()), withdrawn,
                                    U16(attributes.size()), attributes, nlri));
}

std::string MpReachOf(uint16_t family, uint8_t subsequent,
                      absl::string_view next_hop, absl::string_view nlri) {
  return Attribute(
      14, absl::StrCat(U16(family), U8(subsequent), U8(next_hop.size()),
                       next_hop, U8(0), nlri));
}

std::string MpUnreachOf(uint16_t family, uint8_t subsequent,
                        absl::string_view nlri) {
  return Attribute(15, absl::StrCat(U16(family), U8(subsequent), nlri));
}

std::string Announce6(absl::string_view next_hop, absl::string_view nlri) {
  return MpReachOf(2, 1, Packed(next_hop), nlri);
}

std::string Withdraw6(absl::string_view nlri) {
  return MpUnreachOf(2, 1, nlri);
}

std::string SessionBody(absl::string_view peer, uint32_t as_number,
                        absl::string_view rest, bool narrow_as) {
  const std::string address = Packed(peer);
  const auto as_bytes = narrow_as ? U16 : U32;
  return absl::StrCat(as_bytes(as_number), as_bytes(64999), U16(0),
                      U16(address.size() == 4 ? 1 : 2), address,
                      std::string(address.size(), '\x01'), rest);
}

std::string Heard(absl::string_view peer, uint32_t as_number,
                  absl::string_view message) {
  return Mrt(16, kMessageAs4, SessionBody(peer, as_number, message));
}

std::string HeardAt(uint32_t seconds, uint32_t microseconds,
                    absl::string_view peer, uint32_t as_number,
                    absl::string_view message) {
  const std::string body =
      absl::StrCat(U32(microseconds), SessionBody(peer, as_number, message));
  return absl::StrCat(U32(seconds), U16(17), U16(kMessageAs4), U32(body.size()),
                      body);
}

namespace {

constexpr size_t kPreamble = 12;
constexpr size_t kHead = 8;
constexpr size_t kSum = 8;
constexpr uint32_t kEndType = 6;
constexpr size_t kEndPayload = 40;

std::string Little(uint64_t value, size_t size) {
  std::string bytes;
  for (; size > 0; --size, value >>= 8) {
    bytes += static_cast<char>(value & 255);
  }
  return bytes;
}

uint32_t Load32(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

std::string Sum(const std::string& bytes, size_t at, size_t size,
                uint64_t seed) {
  return Little64(XXH3_64bits_withSeed(bytes.data() + at, size, seed));
}

Prefix P(absl::string_view text) { return *Prefix::Parse(text); }

}  // namespace

std::string Little16(uint64_t value) { return Little(value, 2); }
std::string Little32(uint64_t value) { return Little(value, 4); }
std::string Little64(uint64_t value) { return Little(value, 8); }

std::string TableFileOf(
    const std::vector<std::pair<uint32_t, std::string>>& blocks,
    uint32_t version) {
  std::string file = absl::StrCat("\x89PLB\r\n\x1a\n", Little32(version));
  for (const auto& [type, given] : blocks) {
    std::string payload = given;
    if (type == kEndType && payload.size() == kEndPayload - 8) {
      payload += Little64(0);
    }
    absl::StrAppend(&file, Little32(type), Little32(payload.size()), payload,
                    Little64(0));
  }
  return RepairTableFile(file);
}

std::string RepairTableFile(std::string bytes) {
  uint64_t ordinal = 0;
  for (size_t at = kPreamble; at + kHead <= bytes.size(); ++ordinal) {
    const size_t size = Load32(bytes, at + 4);
    if (size > bytes.size() - at - kHead) break;
    const size_t end = at + kHead + size;
    if (bytes.size() - end < kSum) break;
    if (Load32(bytes, at) == kEndType && size == kEndPayload) {
      bytes.replace(end - 8, 8, Sum(bytes, 0, at, 0));
    }
    bytes.replace(end, kSum, Sum(bytes, at, end - at, ordinal));
    at = end + kSum;
  }
  return bytes;
}

TableContents SmallTable() {
  TableContents table;
  table.header = {"default", 0x0102030405060708, "0123456789abcdef",
                  /*attributes=*/true};
  NextHop full{7,          *Address::Parse("2001:db8::1"), "eth0", 3,
               "upstream", Attributes("\x08\x07")};
  NextHop four{9, *Address::Parse("192.0.2.1"), "", 1, ""};
  NextHop bare{4294967294, std::nullopt, "", 0, ""};
  table.next_hops = {full, four, bare};
  table.groups = {{8, {{7, 2}, {9, 1}}, "both"}, {10, {}, ""}};
  table.routes = {
      {P("0.0.0.0/0"), 7},          {P("192.0.2.0/25"), 9},
      {P("192.0.2.0/32"), 1},       {P("::/0"), 8},
      {P("2001:db8::/32"), 7},      {P("2001:db8::/48"), 4294967294},
      {P("2001:db8::ffff/128"), 2},
  };
  return table;
}

}  // namespace planb
