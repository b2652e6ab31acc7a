#include "lpm/io/xxh3.h"

#include <xxhash.h>

#include "absl/base/internal/raw_logging.h"

namespace planb {

uint64_t Xxh3(absl::string_view octets, uint64_t seed) {
  return XXH3_64bits_withSeed(octets.data(), octets.size(), seed);
}

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  ABSL_RAW_CHECK(state_ != nullptr, "no memory");
  XXH3_64bits_reset(state_.get());
}

void Xxh3Stream::Add(absl::string_view octets) {
  XXH3_64bits_update(state_.get(), octets.data(), octets.size());
}

uint64_t Xxh3Stream::Value() const { return XXH3_64bits_digest(state_.get()); }

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

}  // namespace planb
