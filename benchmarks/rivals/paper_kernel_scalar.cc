// The search in portable C++: for any 64-bit machine.

#include <endian.h>

#include <cstddef>
#include <cstdint>

#include "benchmarks/rivals/paper_kernel.h"

namespace planb::paper {
namespace {

#include "benchmarks/rivals/paper_search.inc"

struct Scalar {
  // The sum of the comparisons: no branch, and compilers vectorize it as far
  // as the baseline instruction set allows.
  static int Rank(const TreeNode& node, int64_t key) {
    int rank = 0;
    for (int64_t bound : node.keys) rank += key > bound ? 1 : 0;
    return rank;
  }
};

bool RunsHere() { return true; }

}  // namespace

// Sixteen together whatever is asked: more does not help without vectors, and
// keeps the compiler busy for minutes.
const Kernel kScalarKernel = {"scalar", RunsHere, Search<Scalar, 16>::Lookup,
                              Search<Scalar, 16>::Lookup,
                              Search<Scalar, 16>::Lookup};

}  // namespace planb::paper
