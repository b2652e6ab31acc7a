// Takes numbers and runs of octets off the front of a view.

#ifndef PLANB_LPM_IO_OCTETS_H_
#define PLANB_LPM_IO_OCTETS_H_

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace planb {

// Invariant: left() only ever shrinks, from the front. A read that fails takes
// nothing. Thread-compatible.
class OctetCursor {
 public:
  explicit OctetCursor(absl::string_view octets) : left_(octets) {}

  // Reads one number in network order; returns false if too few octets are
  // left.
  template <std::unsigned_integral T>
  [[nodiscard]] bool Read(T* value) {
    absl::string_view octets;
    if (!Read(sizeof(T), &octets)) return false;
    T result = 0;
    for (const char octet : octets) {
      // Through 64 bits: a shift of a narrow type would promote to int.
      result = static_cast<T>(uint64_t{result} << 8 |
                              static_cast<unsigned char>(octet));
    }
    *value = result;
    return true;
  }

  // Likewise, the least significant octet first.
  template <std::unsigned_integral T>
  [[nodiscard]] bool ReadLittle(T* value) {
    absl::string_view octets;
    if (!Read(sizeof(T), &octets)) return false;
    uint64_t result = 0;
    for (size_t i = sizeof(T); i-- > 0;) {
      result = result << 8 | static_cast<unsigned char>(octets[i]);
    }
    *value = static_cast<T>(result);
    return true;
  }

  // Reads `count` octets, likewise.
  [[nodiscard]] bool Read(size_t count, absl::string_view* octets) {
    if (count > left_.size()) return false;
    *octets = left_.substr(0, count);
    left_.remove_prefix(count);
    return true;
  }

  absl::string_view left() const { return left_; }
  bool empty() const { return left_.empty(); }

 private:
  absl::string_view left_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_OCTETS_H_
