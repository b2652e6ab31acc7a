// SPDX-License-Identifier: Apache-2.0

#include "server/base/decoded_size.h"

#include <google/protobuf/message.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/wire/bytes.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using wire::WireType;

// What protobuf 3.21 takes besides the objects themselves. The test compares
// the sum with what it does take.

// Blocks of the arena that are partly used.
constexpr size_t kArenaBytes = size_t{16} << 10;
// An object's share of what is left at the ends of the arena's blocks.
constexpr size_t WithWaste(size_t bytes) { return bytes + bytes / 16; }
// The array of a list doubles when it is full, and an arena keeps the smaller
// ones before it.
constexpr size_t PlaceBytes(size_t entry) { return 4 * entry + 8; }
constexpr size_t kListBytes = 64;
// The object, and the note that it is to be destroyed.
constexpr size_t kStringBytes = WithWaste(sizeof(std::string) + 16);
constexpr size_t kHeapBytes = 32;  // beside each piece of the heap
// A field that the type does not have: its place in an array that doubles, its
// value, and the array itself.
constexpr size_t kUnknownBytes = 192;
// Two bytes of an unknown group may be an empty string of 128 bytes.
constexpr size_t kUnknownGroupFactor = 64;
// The lists of a message within a request, such as the members of a group, have
// at most some hundreds of entries.
constexpr size_t kInnerEntries = 4096;

size_t StringBytes(size_t size) {
  constexpr size_t kWithin = 15;
  return kStringBytes + (size <= kWithin ? 0 : size + kHeapBytes);
}

// How a value of `field` is encoded, and how many bytes a number takes in
// memory.
WireType WireTypeOf(const FieldDescriptor& field, size_t& bytes) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_BOOL:
      bytes = sizeof(bool);
      return WireType::kVarint;
    case FieldDescriptor::TYPE_INT32:
    case FieldDescriptor::TYPE_UINT32:
    case FieldDescriptor::TYPE_SINT32:
    case FieldDescriptor::TYPE_ENUM:
      bytes = sizeof(int32_t);
      return WireType::kVarint;
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
    case FieldDescriptor::TYPE_FLOAT:
      bytes = sizeof(int32_t);
      return WireType::kFixed32;
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
    case FieldDescriptor::TYPE_DOUBLE:
      bytes = sizeof(int64_t);
      return WireType::kFixed64;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      bytes = sizeof(void*);
      return WireType::kLengthDelimited;
    default:
      bytes = sizeof(int64_t);
      return WireType::kVarint;
  }
}

// The entries of a packed list.
size_t CountPacked(const wire::Bytes& list, WireType entry) {
  if (entry == WireType::kFixed32) return list.size() / 4;
  if (entry == WireType::kFixed64) return list.size() / 8;
  size_t count = 0;
  list.ForEachRun<1>([&count](const char* bytes, size_t size) {
    count += static_cast<size_t>(std::count_if(
        bytes, bytes + size, [](char byte) { return (byte & 0x80) == 0; }));
  });
  return count;
}

absl::Status Malformed(absl::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "MESSAGE_MALFORMED",
               absl::StrCat("the request cannot be parsed: ", why));
}

}  // namespace

// One measurement.
class DecodedSizer::Walk {
 public:
  Walk(const std::vector<Type>& types, const DecodedLimits& limits)
      : types_(types), limits_(limits) {}

  absl::StatusOr<size_t> Whole(wire::Pieces message) {
    wire::MessageReader reader(message);
    const size_t size = reader.left();
    const Type& type = types_.front();
    total_ = kArenaBytes + type.bytes;
    std::vector<size_t> counts(type.fields.size());
    while (!reader.AtEnd()) {
      const size_t at = size - reader.left();
      size_t number = 0, entries = 0;
      if (!ReadField(type, reader, wire::MessageReader::kDeepest, number,
                     entries)) {
        if (crowded_) return Crowded(type, number);
        return total_ > limits_.bytes
                   ? TooLarge()
                   : Malformed(absl::StrCat("the field at byte ", at));
      }
      if (entries == 0) continue;
      counts[number] += entries;
      if (counts[number] > limits_.entries) return TooMany(type, number);
    }
    return total_ <= limits_.bytes ? absl::StatusOr<size_t>(total_)
                                   : TooLarge();
  }

 private:
  absl::Status TooLarge() const {
    return QuotaError("REQUEST_TOO_LARGE", "request",
                      absl::StrCat("takes more than the limit of ",
                                   limits_.bytes, " bytes when it is parsed"));
  }
  absl::Status TooMany(const Type& type, size_t number) const {
    const FieldDescriptor* const field =
        type.descriptor->FindFieldByNumber(static_cast<int>(number));
    return QuotaError(
        "BATCH_TOO_LARGE", field->name(),
        absl::StrCat("more than the limit of ", limits_.entries, " entries"));
  }

  absl::Status Crowded(const Type& type, size_t number) const {
    const FieldDescriptor* const field =
        type.descriptor->FindFieldByNumber(static_cast<int>(number));
    return QuotaError("BATCH_TOO_LARGE", field->name(),
                      absl::StrCat("an entry has lists of more than ",
                                   kInnerEntries, " entries"));
  }

  // Adds a message of `type`. False if it is malformed or beyond the limit.
  bool ReadMessage(const Type& type, const wire::Bytes& bytes, int deepest) {
    if (deepest == 0) return false;
    total_ += type.bytes;
    wire::MessageReader reader(bytes, deepest);
    size_t number, entries, listed = 0;
    while (!reader.AtEnd()) {
      if (!ReadField(type, reader, deepest, number, entries)) return false;
      listed += entries;
      crowded_ = crowded_ || listed > kInnerEntries;
      if (crowded_) return false;
    }
    return true;
  }

  // Adds the next field. `entries` are those of a list; 0 for other fields.
  bool ReadField(const Type& type, wire::MessageReader& reader, int deepest,
                 size_t& number, size_t& entries) {
    static constexpr Field kNone;
    uint32_t tag = 0;
    const size_t before = reader.left();
    if (!reader.ReadTag(tag)) return false;
    number = tag >> 3;
    const auto encoded = static_cast<WireType>(tag & 7);
    const Field& field =
        number < type.fields.size() ? type.fields[number] : kNone;
    const bool packed = field.kind == Field::kNumber && field.repeated &&
                        encoded == WireType::kLengthDelimited;
    entries = 0;
    if (field.kind == Field::kUnknown || (encoded != field.wire && !packed)) {
      // The parser keeps it.
      if (!reader.SkipField(tag)) return false;
      const size_t size = before - reader.left();
      total_ +=
          kUnknownBytes +
          (encoded == WireType::kStartGroup ? kUnknownGroupFactor : 1) * size;
      return total_ <= limits_.bytes;
    }
    size_t count = 1;
    if (encoded != WireType::kLengthDelimited) {
      if (!reader.SkipField(tag)) return false;
    } else {
      wire::Bytes bytes;
      if (!reader.ReadBytes(bytes)) return false;
      if (packed) count = CountPacked(bytes, field.wire);
      if (field.kind == Field::kString || field.kind == Field::kBytes) {
        total_ += StringBytes(bytes.size());
      }
      if (field.kind == Field::kBytes) {
        total_ += limits_.unpacked * bytes.size();
      }
      if (field.kind == Field::kMessage &&
          !ReadMessage(types_[field.type], bytes, deepest - 1)) {
        return false;
      }
    }
    if (field.repeated) {
      entries = count;
      total_ += count * field.place_bytes;
    }
    return total_ <= limits_.bytes;
  }

  const std::vector<Type>& types_;
  const DecodedLimits& limits_;
  size_t total_ = 0;
  bool crowded_ = false;  // an inner message
};

DecodedSizer::DecodedSizer(const Descriptor& type) { Add(type); }

size_t DecodedSizer::Add(const Descriptor& type) {
  const auto known = std::find_if(
      types_.begin(), types_.end(),
      [&type](const Type& one) { return one.descriptor == &type; });
  if (known != types_.end()) {
    return static_cast<size_t>(known - types_.begin());
  }
  const size_t index = types_.size();
  types_.push_back({.descriptor = &type});
  size_t bytes = google::protobuf::MessageFactory::generated_factory()
                     ->GetPrototype(&type)
                     ->SpaceUsedLong();
  std::vector<Field> fields;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& descriptor = *type.field(i);
    Field field = {.kind = Field::kNumber,
                   .repeated = descriptor.is_repeated()};
    size_t place = 0;
    field.wire = WireTypeOf(descriptor, place);
    field.place_bytes = PlaceBytes(place);
    if (descriptor.type() == FieldDescriptor::TYPE_MESSAGE) {
      field.kind = Field::kMessage;
      field.type = Add(*descriptor.message_type());
    } else if (field.wire == WireType::kLengthDelimited) {
      field.kind = descriptor.type() == FieldDescriptor::TYPE_BYTES
                       ? Field::kBytes
                       : Field::kString;
    }
    if (field.repeated) bytes += kListBytes;
    const auto number = static_cast<size_t>(descriptor.number());
    if (fields.size() <= number) fields.resize(number + 1);
    fields[number] = field;
  }
  types_[index].bytes = WithWaste(bytes);
  types_[index].fields = std::move(fields);
  return index;
}

absl::StatusOr<size_t> DecodedSizer::Measure(
    grpc::ByteBuffer& message, const DecodedLimits& limits) const {
  std::vector<absl::string_view> pieces;
  // The pointers are into the buffer's own slices: nothing is copied.
  grpc::ProtoBufferReader reader(&message);
  const void* data = nullptr;
  int size = 0;
  while (reader.Next(&data, &size)) {
    pieces.emplace_back(static_cast<const char*>(data),
                        static_cast<size_t>(size));
  }
  if (!reader.status().ok()) return Malformed("there is none");
  return Walk(types_, limits).Whole(pieces);
}

absl::Status ParseAndFree(grpc::ByteBuffer& bytes,
                          google::protobuf::MessageLite& to) {
  bool parsed;
  {
    grpc::ProtoBufferReader reader(&bytes);
    parsed = reader.status().ok() && to.ParseFromZeroCopyStream(&reader);
  }
  bytes.Clear();
  return parsed ? absl::OkStatus() : Malformed("a field's value");
}

}  // namespace planb::server
