// SPDX-License-Identifier: Apache-2.0

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace learned {
namespace {

inline constexpr int kNeurons = 8;

template <typename Bits>
using Real = std::conditional_t<sizeof(Bits) == 4, float, double>;

// A network of one hidden layer. Its input is the distance from its first
// address, which a Real holds exactly where it matters.
template <typename Bits>
struct alignas(64) Model {
  Real<Bits> weights[kNeurons];
  Real<Bits> biases[kNeurons];
  Bits start;
  int32_t first;  // the output's bias: where windows of keys are counted from
  uint32_t negative;  // neurons with weight -1 in the output, not 1
};
static_assert(sizeof(Model<uint32_t>) == 128);
static_assert(sizeof(Model<uint64_t>) == 192);

template <typename Bits>
struct View {
  uint32_t shift;
  const uint32_t* slots;  // by the first bits: the model where they begin
  // Of a slot's models a search finds the address's in so many halves.
  uint32_t half_models;
  const Bits* starts;  // of models
  uint32_t last_model;
  const Model<Bits>* models;
  // With `width` zeros ahead and as many of the largest numbers behind.
  const Bits* keys;
  const uint32_t* values;
  size_t width;  // of a window
  int64_t last_window;
  size_t size;  // of keys, all of them
  const LowerHalves* lower;

  // The place of the last key that is not beyond x.
  size_t Find(Bits x) const {
    return static_cast<size_t>(std::upper_bound(keys, keys + size, x) - keys) -
           1;
  }
};

namespace scalar {

#include "benchmarks/rivals/learned.inc"

struct Scalar {
  template <typename Bits>
  static int64_t Predict(const Model<Bits>& model, Bits x) {
    const auto distance =
        static_cast<Real<Bits>>(static_cast<Bits>(x - model.start));
    Real<Bits> sum = 0;
    for (int i = 0; i < kNeurons; ++i) {
      const Real<Bits> z = std::max<Real<Bits>>(
          model.weights[i] * distance + model.biases[i], 0);
      sum += (model.negative >> i & 1) != 0 ? -z : z;
    }
    return static_cast<int64_t>(sum);
  }
  template <typename Bits>
  static size_t Count(const Bits* keys, size_t width, Bits x) {
    size_t count = 0;
    for (size_t i = 0; i < width; ++i) count += keys[i] <= x ? 1 : 0;
    return count;
  }
};

}  // namespace scalar
}  // namespace
}  // namespace learned
}  // namespace planb

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,fma,popcnt")

namespace planb {
namespace learned {
namespace {
namespace avx512 {

#include "benchmarks/rivals/learned.inc"

struct Avx512 {
  static int64_t Predict(const Model<uint32_t>& model, uint32_t x) {
    const __m256 distance = _mm256_set1_ps(static_cast<float>(x - model.start));
    __m256 z = _mm256_fmadd_ps(_mm256_load_ps(model.weights), distance,
                               _mm256_load_ps(model.biases));
    z = _mm256_max_ps(z, _mm256_setzero_ps());
    z = _mm256_mask_sub_ps(z, static_cast<__mmask8>(model.negative),
                           _mm256_setzero_ps(), z);
    const __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(z), _mm256_extractf128_ps(z, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvttss_si64(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static int64_t Predict(const Model<uint64_t>& model, uint64_t x) {
    const __m512d distance =
        _mm512_set1_pd(static_cast<double>(x - model.start));
    __m512d z = _mm512_fmadd_pd(_mm512_load_pd(model.weights), distance,
                                _mm512_load_pd(model.biases));
    z = _mm512_max_pd(z, _mm512_setzero_pd());
    z = _mm512_mask_sub_pd(z, static_cast<__mmask8>(model.negative),
                           _mm512_setzero_pd(), z);
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(z), _mm512_extractf64x4_pd(z, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four),
                                   _mm256_extractf128_pd(four, 1));
    return _mm_cvttsd_si64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

  static size_t Count(const uint32_t* keys, size_t width, uint32_t x) {
    const __m512i wanted = _mm512_set1_epi32(static_cast<int32_t>(x));
    int count = 0;
    for (size_t i = 0; i < width; i += 16) {
      count += _mm_popcnt_u32(
          _mm512_cmple_epu32_mask(_mm512_loadu_si512(keys + i), wanted));
    }
    return static_cast<size_t>(count);
  }
  static size_t Count(const uint64_t* keys, size_t width, uint64_t x) {
    const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(x));
    int count = 0;
    for (size_t i = 0; i < width; i += 8) {
      count += _mm_popcnt_u32(
          _mm512_cmple_epu64_mask(_mm512_loadu_si512(keys + i), wanted));
    }
    return static_cast<size_t>(count);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace learned
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace {

using learned::kNeurons;
using learned::Model;
using learned::Real;

// What the instruction set decides.
template <typename Bits>
struct Functions {
  int64_t (*predict)(const Model<Bits>& model, Bits x);
  void (*lookup)(const learned::View<Bits>& view, const void* addresses,
                 size_t count, void* next_hops);
};

template <typename Bits>
Functions<Bits> FunctionsOf(RivalKernel kernel) {
  const bool avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("popcnt");
  if (kernel == RivalKernel::kScalar || !avx512) {
    using learned::scalar::Scalar;
    return {learned::scalar::Predict<Bits, Scalar>,
            learned::scalar::LookupAll<Bits, Scalar>};
  }
  using learned::avx512::Avx512;
  return {learned::avx512::Predict<Bits, Avx512>,
          learned::avx512::LookupAll<Bits, Avx512>};
}

// A line from a key's place on, up to the next segment's.
template <typename Bits>
struct Segment {
  Bits start;
  double place;
  double slope;
};

// Algorithm 1: from each end the longest line to another point from which none
// between is further away than `error`. Instead of all those points again for
// each end, the slopes that they allow are kept. The last goes on level.
template <typename Bits>
std::vector<Segment<Bits>> Approximate(const std::vector<Bits>& keys,
                                       double error) {
  std::vector<Segment<Bits>> segments;
  size_t left = 0;
  while (left + 1 < keys.size()) {
    double least = 0;
    double most = std::numeric_limits<double>::infinity();
    const auto slope_to = [&](size_t i, double more) {
      return (static_cast<double>(i - left) + more) /
             static_cast<double>(keys[i] - keys[left]);
    };
    size_t right = left + 1;
    for (; right + 1 < keys.size(); ++right) {
      least = std::max(least, slope_to(right, -error));
      most = std::min(most, slope_to(right, error));
      const double next = slope_to(right + 1, 0);
      if (next < least || next > most) break;
    }
    segments.push_back(
        {keys[left], static_cast<double>(left), slope_to(right, 0)});
    left = right;
  }
  segments.push_back({keys[left], static_cast<double>(left), 0});
  return segments;
}

template <typename Bits>
class Learned : public Baseline {
 public:
  Learned(const paper::Stages& stages, const LearnedOptions& options,
          const Functions<Bits>& functions)
      : functions_(functions), lower_(stages.second) {
    std::vector<Bits> keys = {0};
    for (size_t i = 1; i < stages.first.size(); ++i) {
      keys.push_back(static_cast<Bits>(stages.first[i].start >> (64 - kWidth)));
    }
    const auto segments = Approximate(keys, options.error);
    int bits = options.bits;
    if (bits == 0) {
      // The least for which no slot has several models, within reason.
      for (bits = 8; bits < kMostBits; ++bits) {
        Divide(segments, bits);
        if (view_.half_models == 0) break;
      }
    }
    Divide(segments, bits);
    const size_t width = Bound(keys) + 2;
    constexpr size_t kVector = 64 / sizeof(Bits);
    view_.width = (width + kVector - 1) / kVector * kVector;
    LayOut(keys, stages.first);
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    functions_.lookup(view_, addresses, count, next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + slots_.bytes() + models_.bytes() + starts_.bytes() +
           keys_.bytes() + values_.bytes() + lower_.bytes();
  }

 private:
  static constexpr int kWidth = 8 * sizeof(Bits);
  static constexpr int kMostBits = sizeof(Bits) == 4 ? 22 : 16;

  // Makes models of at most kNeurons segments that begin where slots do, or
  // within a slot that has more of them (sections V.D and E).
  void Divide(const std::vector<Segment<Bits>>& segments, int bits) {
    const int shift = kWidth - bits;
    std::vector<Model<Bits>> models;
    slots_ = HugeArray<uint32_t>(size_t{1} << bits);
    view_.shift = static_cast<uint32_t>(64 - bits);
    size_t slot = 0;  // the first without a known model
    size_t most = 1;  // models that meet one slot
    size_t in_slot = 1;
    Bits start = 0;
    for (size_t segment = 0;;) {
      const size_t after = segment + kNeurons;
      const bool last = after >= segments.size();
      Bits end = last ? Bits{0} : segments[after].start;
      const Bits edge = static_cast<Bits>(end >> shift << shift);
      if (edge > start) end = edge;
      models.push_back(Train(segments, segment, start));
      in_slot = models.size() > 1 && (start & ((Bits{1} << shift) - 1)) != 0
                    ? in_slot + 1
                    : 1;
      most = std::max(most, in_slot);
      const auto number = static_cast<uint32_t>(models.size() - 1);
      const size_t slots_end =
          last ? slots_.size()
               : static_cast<size_t>((end >> shift) +
                                     ((end & ((Bits{1} << shift) - 1)) != 0));
      for (; slot < slots_end; ++slot) slots_[slot] = number;
      if (last) break;
      start = end;
      while (segment + 1 < segments.size() &&
             segments[segment + 1].start <= start) {
        ++segment;
      }
    }
    view_.half_models = 0;
    while (2 * view_.half_models < most && most > 1) {
      view_.half_models = std::max(1U, 2 * view_.half_models);
    }
    models_ = HugeArray<Model<Bits>>(models.size());
    starts_ = HugeArray<Bits>(models.size() + 2 * view_.half_models);
    std::fill(starts_.begin(), starts_.end(), std::numeric_limits<Bits>::max());
    for (size_t i = 0; i < models.size(); ++i) {
      models_[i] = models[i];
      starts_[i] = models[i].start;
    }
    view_.last_model = static_cast<uint32_t>(models.size() - 1);
  }

  // The network that is the line from `start`, in `segment`, on: a neuron bends
  // it where a segment begins, up or down.
  static Model<Bits> Train(const std::vector<Segment<Bits>>& segments,
                           size_t segment, Bits start) {
    Model<Bits> model = {};
    model.start = start;
    const auto& begin = segments[segment];
    model.first = static_cast<int32_t>(
        begin.place + begin.slope * static_cast<double>(start - begin.start));
    double slope = 0;
    for (size_t i = 0; i < kNeurons && segment + i < segments.size(); ++i) {
      const auto& next = segments[segment + i];
      const double weight = std::abs(next.slope - slope);
      const double at = i == 0 ? 0 : static_cast<double>(next.start - start);
      model.weights[i] = static_cast<Real<Bits>>(weight);
      model.biases[i] = static_cast<Real<Bits>>(-weight * at);
      model.negative |= next.slope < slope ? 1U << i : 0;
      slope = next.slope;
    }
    return model;
  }

  // Moves each network's output down until none of its addresses is before its
  // window, and returns how wide windows must be. An output does not fall
  // between two keys, but for rounding: the ends of all intervals are tried,
  // and windows have one more at either end.
  size_t Bound(const std::vector<Bits>& keys) {
    size_t width = 1;
    size_t key = 0;
    for (size_t i = 0; i < models_.size(); ++i) {
      Model<Bits>& model = models_[i];
      const Bits last = i + 1 < models_.size()
                            ? static_cast<Bits>(models_[i + 1].start - 1)
                            : std::numeric_limits<Bits>::max();
      int64_t above = std::numeric_limits<int64_t>::min();
      int64_t below = above;
      const auto measure = [&](Bits x) {
        const int64_t over = model.first + functions_.predict(model, x) -
                             static_cast<int64_t>(key);
        above = std::max(above, over);
        below = std::max(below, -over);
      };
      while (key + 1 < keys.size() && keys[key + 1] <= model.start) ++key;
      for (Bits x = model.start;; x = keys[++key]) {
        measure(x);
        const bool is_last = key + 1 == keys.size() || keys[key + 1] > last;
        measure(is_last ? last : static_cast<Bits>(keys[key + 1] - 1));
        if (is_last) break;
      }
      model.first -= static_cast<int32_t>(above) + 1;
      width = std::max(width, static_cast<size_t>(above + below + 2));
    }
    return width;
  }

  void LayOut(const std::vector<Bits>& keys, const paper::Entries& entries) {
    const size_t width = view_.width;
    keys_ = HugeArray<Bits>(keys.size() + 2 * width);
    values_ = HugeArray<uint32_t>(keys_.size());
    std::copy(keys.begin(), keys.end(), keys_.begin() + width);
    std::fill_n(keys_.begin() + width + keys.size(), width,
                std::numeric_limits<Bits>::max());
    for (size_t i = 0; i < values_.size(); ++i) {
      const size_t entry = i < width ? 0 : std::min(i - width, keys.size() - 1);
      values_[i] = entries[entry].value;
    }
    for (Model<Bits>& model : models_) {
      model.first += static_cast<int32_t>(width);
    }
    view_.slots = slots_.data();
    view_.starts = starts_.data();
    view_.models = models_.data();
    view_.keys = keys_.data();
    view_.values = values_.data();
    view_.last_window = static_cast<int64_t>(keys_.size() - width);
    view_.size = keys_.size();
    view_.lower = &lower_;
  }

  const Functions<Bits> functions_;
  HugeArray<uint32_t> slots_;
  HugeArray<Model<Bits>> models_;
  HugeArray<Bits> starts_;
  HugeArray<Bits> keys_;
  HugeArray<uint32_t> values_;
  const LowerHalves lower_;
  learned::View<Bits> view_ = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildLearned(
    Family family, absl::Span<const Route> routes,
    const LearnedOptions& options) {
  const absl::Status status = CheckNextHops(routes);
  if (!status.ok()) return status;
  if (options.error < 1 || options.bits < 0 || options.bits > 28) {
    return absl::InvalidArgumentError("no such learned FIB");
  }
  const paper::Stages stages =
      paper::SplitStages(paper::Sweep(routes, paper::Boundaries::kMerged));
  if (family == Family::kIpv6) {
    return std::make_unique<Learned<uint64_t>>(
        stages, options, FunctionsOf<uint64_t>(options.kernel));
  }
  return std::make_unique<Learned<uint32_t>>(
      stages, options, FunctionsOf<uint32_t>(options.kernel));
}

}  // namespace planb
