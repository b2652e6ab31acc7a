#include <endian.h>

#include "benchmarks/rivals/reference_search.h"

namespace planb::reference {
namespace {

#include "benchmarks/rivals/reference_search.inc"

struct Scalar {
  // A sum of comparisons: no branch.
  static uint64_t Rank(const uint64_t* node, uint64_t key) {
    uint64_t rank = 0;
    for (size_t i = 0; i < kNodeKeys; ++i) rank += key > node[i] ? 1 : 0;
    return rank;
  }
};

}  // namespace

void LookupScalar(const View& tree, const void* addresses, size_t count,
                  void* next_hops) {
  Search<Scalar>::Lookup(tree, addresses, count, next_hops);
}

}  // namespace planb::reference
