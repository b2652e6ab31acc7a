// SPDX-License-Identifier: Apache-2.0

// The addresses a benchmark asks for, packed once and sent over and over.

#ifndef PLANB_CLIENT_LOAD_TRACE_H_
#define PLANB_CLIENT_LOAD_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/batch_codec.h"
#include "client/load/reference_table.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"

namespace planb::client {

// Addresses as text, one a line, as people pipe them in.
//
// Hands every address of `lines` to `on_address` and every line that is none
// to `on_malformed`, with its number (from 1) and what is wrong. Blanks around
// an address, empty lines and lines that begin with '#' are skipped.
// Errors: what `on_address` returns, which ends the reading; DATA_LOSS if the
// stream breaks.
absl::Status ReadAddressLines(
    std::istream& lines,
    absl::FunctionRef<absl::Status(const Address&)> on_address,
    absl::FunctionRef<void(uint64_t line, const absl::Status&)> on_malformed);

// How addresses are asked for.
enum class AddressForm {
  kFull,
  kUpper,  // the upper half alone, of IPv6 only
};

// A ring of batches of one family. Thread-safe: const after construction.
class Trace {
 public:
  // The addresses, all of `family`, in their order, begun again until the last
  // batch is full. REQUIRES: there are addresses, batch > 0, and `form` is one
  // of the family's.
  Trace(Family family, absl::Span<const Address> addresses, size_t batch,
        AddressForm form = AddressForm::kFull);

  size_t batches() const { return batches_; }
  size_t batch_size() const { return batch_size_; }

  // Batch number `index` (modulo batches()). Refers to this trace's bytes and
  // keeps them alive, so that they are sent from where they lie.
  Batch Get(size_t index) const;

  // What `table` says to each address, or upper half.
  std::vector<NextHopId> Expect(const ReferenceTable& table) const;

  // The part of such a vector that belongs to batch number `index`.
  absl::Span<const NextHopId> Slice(const std::vector<NextHopId>& expected,
                                    size_t index) const;

 private:
  Family family_;
  AddressForm form_;
  // Bytes of one address as it is sent.
  size_t width_;
  size_t batch_size_;
  size_t batches_;
  std::shared_ptr<const std::string> bytes_;
};

// The addresses of `family` in a file, one a line; others are skipped.
// Errors: NOT_FOUND if the file cannot be opened or holds none;
// INVALID_ARGUMENT for a malformed line.
absl::StatusOr<std::vector<Address>> ReadAddressFile(const std::string& path,
                                                     Family family);

// When the batches of an open loop are due: a schedule made before anything is
// sent, that no answer and no delay can change.

enum class ArrivalKind {
  kEven,     // one every 1/rate
  kPoisson,  // exponential gaps of mean 1/rate: independent callers
};

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kEven;
  // Of one stream; more than 0.
  double batches_per_second = 1;
  // Even arrivals of several streams take turns: this is stream `stream` of
  // `streams`.
  size_t stream = 0;
  size_t streams = 1;
  // Poisson arrivals: each seed and stream has gaps of its own.
  uint64_t seed = 1;
};

// Thread-compatible.
class Arrivals {
 public:
  // The first even arrival is within 1/rate of `start`, at `start` for stream
  // 0; the first Poisson one a gap after.
  Arrivals(const ArrivalOptions& options, absl::Time start);

  // When the next batch is due. Never before the one before it.
  absl::Time next() const { return next_; }
  // Goes on to the one after. Even arrivals do not drift: the k-th is at k/rate
  // to the nanosecond, however many there were.
  void Pop();

 private:
  void Schedule();

  const ArrivalOptions options_;
  const absl::Time start_;
  const double gap_ns_;
  Random random_;
  // Even: number of arrivals taken. Poisson: not used.
  uint64_t count_ = 0;
  // Poisson: from start_ to next_.
  double offset_ns_ = 0;
  absl::Time next_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_TRACE_H_
