// XXH3-64 checksums, of one run of octets and of a stream.

#ifndef PLANB_LPM_IO_XXH3_H_
#define PLANB_LPM_IO_XXH3_H_

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

struct XXH3_state_s;

namespace planb {

uint64_t Xxh3(absl::string_view octets, uint64_t seed);

// Of all octets added so far, with seed 0. Thread-compatible.
class Xxh3Stream {
 public:
  Xxh3Stream();

  void Add(absl::string_view octets);
  uint64_t Value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  const std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_XXH3_H_
