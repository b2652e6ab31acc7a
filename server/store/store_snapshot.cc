// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_snapshot.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

// A part takes about a millisecond to write.
constexpr size_t kPartBytes = 512 << 10;

}  // namespace

SnapshotSource::SnapshotSource(const std::string& table, TableVersion version)
    : table_(table),
      version_(std::move(version)),
      writer_([this](absl::string_view bytes) {
        part_.append(bytes.data(), bytes.size());
        return absl::OkStatus();
      }),
      next_hop_(version_.rib.next_hops().next_hops().begin()),
      group_(version_.rib.next_hops().groups().begin()),
      v4_(version_.rib.routes(Family::kIpv4).begin()),
      v6_(version_.rib.routes(Family::kIpv6).begin()) {}

absl::StatusOr<bool> SnapshotSource::Begin() {
  const std::vector<AnsweredRequest>& requests = version_.requests;
  if (begun_) return true;
  if (request_ == 0) {
    AppendLittle(version_.writer_epoch, part_);
    AppendLittle(static_cast<uint32_t>(requests.size()), part_);
  }
  for (; request_ < requests.size(); ++request_) {
    if (part_.size() >= kPartBytes) return false;
    AppendRequest(requests[request_], part_);
  }
  begun_ = true;
  absl::Status status = writer_.Begin({.table = table_,
                                       .generation = version_.generation,
                                       .digest = version_.rib.digest()});
  if (!status.ok()) return status;
  return true;
}

template <typename Items, typename Iterator>
absl::StatusOr<bool> SnapshotSource::Add(const Items& items, Iterator& next) {
  for (; next != items.end() && part_.size() < kPartBytes; ++next) {
    absl::Status status = writer_.Add(*next);
    if (!status.ok()) return status;
  }
  return next == items.end();
}

absl::StatusOr<std::string> SnapshotSource::Next() {
  part_.clear();
  if (ended_) return std::string();
  const Rib& rib = version_.rib;
  absl::StatusOr<bool> end = Begin();
  if (end.ok() && *end) end = Add(rib.next_hops().next_hops(), next_hop_);
  if (end.ok() && *end) end = Add(rib.next_hops().groups(), group_);
  if (end.ok() && *end) end = Add(rib.routes(Family::kIpv4), v4_);
  if (end.ok() && *end) end = Add(rib.routes(Family::kIpv6), v6_);
  if (!end.ok()) return end.status();
  if (*end) {
    absl::Status status = writer_.Finish();
    if (!status.ok()) return status;
    ended_ = true;
  }
  return std::move(part_);
}

absl::Status SnapshotReader::Push(absl::string_view part) {
  if (begun_ && requests_ == 0) return reader_.Push(part);
  held_.append(part.data(), part.size());
  ByteCursor cursor(held_);
  if (!begun_) {
    if (!cursor.ReadLittle(&table_.writer_epoch) ||
        !cursor.ReadLittle(&requests_)) {
      return absl::OkStatus();
    }
    begun_ = true;
  }
  for (; requests_ > 0; --requests_) {
    ByteCursor ahead = cursor;
    AnsweredRequest request;
    if (!ReadRequest(ahead, request).ok()) break;  // ends in the next part
    table_.requests.push_back(std::move(request));
    cursor = ahead;
  }
  held_.erase(0, held_.size() - cursor.left().size());
  if (requests_ > 0) return absl::OkStatus();
  return reader_.Push(std::exchange(held_, {}));
}

absl::Status SnapshotReader::Finish() {
  if (!begun_ || requests_ > 0) return absl::DataLossError("ends too early");
  return reader_.Finish();
}

absl::Status SnapshotReader::OnHeader(const TableFileHeader& header) {
  digest_ = header.digest;
  if (header.table != table_.name || header.generation != table_.generation) {
    return absl::DataLossError(absl::StrCat(
        "is of generation ", header.generation, " of table ", header.table));
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::OnNextHop(const NextHop& next_hop) {
  table_.next_hops.push_back(next_hop);
  return absl::OkStatus();
}

absl::Status SnapshotReader::OnGroup(const NextHopGroup& group) {
  table_.groups.push_back(group);
  return absl::OkStatus();
}

absl::Status SnapshotReader::OnRoute(const Route& route) {
  table_.routes.push_back(route);
  return absl::OkStatus();
}

absl::Status SnapshotReader::OnEnd(const TableFileCounts&) {
  return absl::OkStatus();
}

}  // namespace planb::server
