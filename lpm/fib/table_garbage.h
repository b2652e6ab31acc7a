// SPDX-License-Identifier: Apache-2.0

// What an update leaves unused: lists of blocks, how to find all that hangs on
// an entry, and how a table is copied before it changes.

#ifndef PLANB_LPM_FIB_TABLE_GARBAGE_H_
#define PLANB_LPM_FIB_TABLE_GARBAGE_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/fib_walk.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/layout.h"

namespace planb {

// Blocks that an update leaves unused, by their first element.
struct Garbage {
  std::vector<uint32_t> lines;
  std::vector<uint32_t> descriptors;
};

// The version of a table before the one in use, to become the one after it: by
// copying the few lines in which they differ, so that the others stay in the
// caches of readers. Thread-compatible.
class SpareTables {
 public:
  struct Spare {
    uint32_t first;       // line
    uint64_t generation;  // the first that does not read it
    // A bit for each line in which they do.
    std::array<uint64_t, kMaxBlockLines / 64> differs;
  };

  // The spare of the table at line `first`, which then has none.
  std::optional<Spare> Take(uint32_t first) {
    const auto known = spares_.find(first);
    if (known == spares_.end()) return std::nullopt;
    const Spare spare = known->second;
    spares_.erase(known);
    return spare;
  }
  void Keep(uint32_t first, const Spare& spare) {
    spares_.insert_or_assign(first, spare);
  }
  // The table at `first`, of so many lines, was written to: at those of the
  // lines `written` that are its own.
  void Written(uint32_t first, uint32_t lines,
               absl::Span<const uint32_t> written) {
    const auto known = spares_.find(first);
    if (known == spares_.end()) return;
    for (const uint32_t line : written) {
      const uint32_t at = line - first;
      if (at < lines) known->second.differs[at / 64] |= uint64_t{1} << at % 64;
    }
  }

 private:
  absl::flat_hash_map<uint32_t, Spare> spares_;  // by the line in use
};

// Blocks that no reader knows are free at once; others are garbage.
template <typename T>
void Discard(BlockPool<T>& pool, uint32_t first,
             std::vector<uint32_t>& garbage) {
  if (pool.fresh(first)) {
    pool.Free(first);
  } else {
    garbage.push_back(first);
  }
}

// Copies tables before they change. Thread-compatible.
class TableCopier {
 public:
  TableCopier(TableCompiler& table, SpareTables& spares, Garbage& garbage)
      : table_(table), spares_(spares), garbage_(garbage) {}

  // An update begins, which makes `generation`; `oldest` is the oldest one that
  // has readers.
  void Begin(uint64_t generation, uint64_t oldest) {
    generation_ = generation;
    oldest_ = oldest;
  }

  // Makes `position` point to a table that no reader knows, and returns its
  // first entry: a copy of the one that `entry`, which is there, sends
  // `first_key` to, unless no reader knows that. If it `keeps` spares, the copy
  // is made of one, if there is, and the original is the next; the caller tells
  // SpareTables what is written. Otherwise the copy has none.
  uint32_t Copy(uint32_t entry, uint32_t first_key, Position position,
                bool keeps) {
    LinePool& lines = table_.lines();
    const uint32_t from = TableLine(entry, first_key);
    const bool fresh = lines.fresh(from);
    if (fresh && keeps) return from * kLineWords;
    const uint32_t size = lines.size(from);
    const std::optional<SpareTables::Spare> spare = spares_.Take(from);
    uint32_t to = 0;
    if (keeps && spare.has_value() && spare->generation <= oldest_) {
      to = spare->first;
      lines.MakeFresh(to);
      for (uint32_t i = 0; i < spare->differs.size(); ++i) {
        for (uint64_t left = spare->differs[i]; left != 0; left &= left - 1) {
          const uint32_t line =
              64 * i + static_cast<uint32_t>(absl::countr_zero(left));
          *lines.at(to + line) = *lines.at(from + line);
        }
      }
    } else {
      if (spare.has_value()) Discard(lines, spare->first, garbage_.lines);
      if (fresh) return from * kLineWords;
      to = lines.Allocate(size);
      if (table_.failed()) return 0;
      std::memcpy(lines.at(to), lines.at(from), size * sizeof(Line));
    }
    table_.WriteEntry(
        position,
        MakeEntry(kTableEntry, PayloadOf(entry) + to - from, ShiftOf(entry)));
    if (keeps && size >= kLeastSpare) {
      spares_.Keep(to,
                   {.first = from, .generation = generation_, .differs = {}});
    } else {
      Discard(lines, from, garbage_.lines);
    }
    return to * kLineWords;
  }

 private:
  // Tables of fewer lines are copied whole.
  static constexpr uint32_t kLeastSpare = 4;

  TableCompiler& table_;
  SpareTables& spares_;
  Garbage& garbage_;
  uint64_t generation_ = 0, oldest_ = 0;
};

// Lists all that hangs on an entry as garbage. A visitor of fib_walk.h.
class GarbageVisitor {
 public:
  GarbageVisitor(TableCompiler& table, SpareTables& spares, Garbage& garbage)
      : table_(table),
        lines_(table.lines()),
        spares_(spares),
        garbage_(garbage) {}

  // All that hangs on the entry of a slot of the main walk.
  void WalkSlot(uint32_t entry, const MainSlot& slot) {
    const Line* const lines = lines_.at(0);
    if (slot.width == kBelowRoot) {
      WalkRootEntry(lines, entry, static_cast<uint32_t>(slot.low >> kBelowRoot),
                    *this);
    } else {
      WalkEntry(lines, entry, KeyOf(slot), slot.width, *this);
    }
  }

  void EnterTable(uint32_t) {}
  void LeaveTable(uint32_t first_line) {
    Discard(lines_, first_line, garbage_.lines);
    const auto spare = spares_.Take(first_line);
    if (spare.has_value()) Discard(lines_, spare->first, garbage_.lines);
  }

  // One slot less names the partition. With the last of them the partition
  // becomes garbage, and so do the descriptors that its values name: those of
  // slots that went before stay until then.
  void Partition(uint32_t entry, uint32_t /*key*/, int /*width*/) {
    const uint32_t first = PayloadOf(entry);
    if (!lines_.DropSlot(first)) return;
    if (lines_.marked(first)) {
      ForEachInterval(lines_.at(0), entry, table_.shape(),
                      [this](uint32_t, uint32_t value) { Value(value); });
    }
    Discard(lines_, first, garbage_.lines);
  }

  void Value(uint32_t value) {
    const uint32_t flag = table_.shape().flag;
    if ((value & flag) == 0) return;
    const uint32_t index = value & (flag - 1);
    WalkEntry(lines_.at(0), table_.descriptors().at(index)->entry, 0, 32,
              *this);
    Discard(table_.descriptors(), index, garbage_.descriptors);
  }

 private:
  TableCompiler& table_;
  LinePool& lines_;
  SpareTables& spares_;
  Garbage& garbage_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_TABLE_GARBAGE_H_
