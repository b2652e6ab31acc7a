// SPDX-License-Identifier: Apache-2.0

// The addresses of a benchmark, packed once and sent repeatedly, and the times
// at which their batches are due.

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
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/traffic.h"

namespace planb::client {

// A longer line of addresses is malformed. Memory is bounded by it.
inline constexpr size_t kMaxAddressLine = 4096;

// Reads addresses as text, one a line. Passes every address to `on_address`,
// and every malformed line to `on_malformed`, with its number (from 1) and the
// error. Skips blanks around an address, empty lines, lines that begin with
// '#', and a byte order mark (UTF-8). Calls `before_wait` before a read that
// the lines at hand do not satisfy. An error of `on_address` or `before_wait`
// ends the reading and is returned. Errors: also DATA_LOSS if the stream
// breaks.
absl::Status ReadAddressLines(
    std::istream& lines,
    absl::FunctionRef<absl::Status(const Address&)> on_address,
    absl::FunctionRef<void(uint64_t line, const absl::Status&)> on_malformed,
    absl::FunctionRef<absl::Status()> before_wait = absl::OkStatus);

// The form in which addresses are sent.
enum class AddressForm {
  kFull,
  kUpper,  // the upper half alone, of IPv6 only
};

// A ring of batches of one family. Thread-safe, because const after
// construction.
class Trace {
 public:
  // The addresses, all of `family`, in order, repeated from the first until the
  // last batch is full. REQUIRES: there are addresses, batch > 0, and `family`
  // has `form`.
  Trace(Family family, absl::Span<const Address> addresses, size_t batch,
        AddressForm form = AddressForm::kFull);

  size_t batches() const { return batches_; }
  size_t batch_size() const { return batch_size_; }

  // Batch number `index` (modulo batches()). Refers to this trace's bytes and
  // keeps them alive, so that they are sent without a copy.
  Batch Get(size_t index) const;

  // The answer of `table` to each address, or upper half.
  std::vector<NextHopId> Expect(const ReferenceTable& table) const;

  // The part of such a vector for batch number `index`.
  absl::Span<const NextHopId> Slice(const std::vector<NextHopId>& expected,
                                    size_t index) const;

 private:
  Family family_;
  AddressForm form_;
  // Bytes of one address in its form.
  size_t width_;
  size_t batch_size_;
  size_t batches_;
  std::shared_ptr<const std::string> bytes_;
};

// A trace of `count` addresses that MakeTraffic makes. Errors: as there.
// REQUIRES: as Trace.
absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed, size_t batch,
                                AddressForm form = AddressForm::kFull);

// The addresses of `family` in a file, one a line. Skips the other family.
// Errors: NOT_FOUND if the file cannot be opened or holds none;
// INVALID_ARGUMENT for a malformed line.
absl::StatusOr<std::vector<Address>> ReadAddressFile(const std::string& path,
                                                     Family family);

enum class ArrivalKind {
  kEven,     // one every 1/rate
  kPoisson,  // exponential gaps of mean 1/rate: independent callers
};

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kEven;
  // Rate of one stream; more than 0.
  double batches_per_second = 1;
  // Even arrivals of several streams alternate: this is stream `stream` of
  // `streams`.
  size_t stream = 0;
  size_t streams = 1;
  // Poisson arrivals: each seed and stream has its own gaps.
  uint64_t seed = 1;
};

// The times at which the batches of an open loop are due. No answer and no
// delay changes this schedule. Thread-compatible.
class Arrivals {
 public:
  // The first even arrival is within 1/rate after `start`, at `start` for
  // stream 0. The first Poisson arrival is one gap after `start`.
  Arrivals(const ArrivalOptions& options, absl::Time start);

  // The time at which the next batch is due. Never decreases.
  absl::Time next() const { return next_; }
  // Advances to the next batch. Even arrivals do not drift: the k-th is at
  // k/rate to the nanosecond.
  void Pop();

 private:
  void Schedule();

  const ArrivalOptions options_;
  const absl::Time start_;
  const double gap_ns_;
  Random random_;
  // Even: number of arrivals popped. Poisson: not used.
  uint64_t count_ = 0;
  // Poisson: from start_ to next_.
  double offset_ns_ = 0;
  absl::Time next_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_TRACE_H_
