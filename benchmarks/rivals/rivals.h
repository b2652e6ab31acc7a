// SPDX-License-Identifier: Apache-2.0

// Other ways to do longest-prefix match, to measure the engine against. Each is
// an exact, honest competitor, as quick as its design allows. All are built
// once from routes and then asked in batches, as Fib is.

#ifndef PLANB_BENCHMARKS_RIVALS_RIVALS_H_
#define PLANB_BENCHMARKS_RIVALS_RIVALS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb {

// Thread-safe: const after it was built.
class Baseline {
 public:
  virtual ~Baseline() = default;

  // Reads `count` packed addresses in network byte order (16 bytes each for
  // IPv6, 4 for IPv4), writes as many next-hop ids, each a little-endian
  // uint32; 0 is no route. Neither array need be aligned.
  virtual void Lookup(const void* addresses, size_t count,
                      void* next_hops) const = 0;

  // Returns the bytes of the search structure that a lookup may read. Reserve
  // that no lookup reads, and the rounding to whole pages, do not count.
  virtual size_t bytes() const = 0;
};

// A baseline that can be changed. Those that cannot are built anew, which is
// what a change costs them. Thread-compatible.
class UpdatableBaseline : public Baseline {
 public:
  // Announces each route, or withdraws its prefix if the next hop is kNoRoute.
  // Errors, after which some changes are made and others are not, so that only
  // one that is built anew is right: UNIMPLEMENTED for what this one cannot
  // hold; RESOURCE_EXHAUSTED.
  virtual absl::Status Update(absl::Span<const Route> changes) = 0;
};

// Makes a baseline of routes of one family, strictly ascending by prefix, no
// next hop 0.
// Errors: UNIMPLEMENTED, saying why, for a table that this kind of baseline
// cannot answer exactly; RESOURCE_EXHAUSTED for one that does not fit.
using BaselineBuilder =
    std::function<absl::StatusOr<std::unique_ptr<const Baseline>>(
        Family family, absl::Span<const Route> routes)>;

// How a baseline searches, where it has a choice.
enum class RivalKernel {
  kBest,    // AVX-512 if this machine has it
  kScalar,  // anywhere
};

// How many addresses a rival searches at the same time, where its authors
// search one.
enum class Turns {
  kTogether,  // 32 take turns, and lines are asked for ahead
  kSingle,    // one after the other, as published
};

// DIR-24-8 (Gupta, Lin, McKeown, INFOCOM '98) for IPv4: one entry for each /24,
// which is the answer or names a block of 256 more for the last byte. One
// memory access for nearly every address, in 32 MB or more.
//
// Entries are indexes into the distinct next hops, of 16 bits where that is
// enough (2^15 next hops and 2^15 blocks), else of 32. O(2^24 + 256 * blocks).
// Errors: UNIMPLEMENTED for IPv6; RESOURCE_EXHAUSTED for 2^23 blocks.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildDir24(
    Family family, absl::Span<const Route> routes,
    RivalKernel kernel = RivalKernel::kBest);

// The public re-implementation of the PlanB paper, planb-lpm, as a baseline:
// its algorithm, written anew, with right answers.
//
// A complete 9-ary tree: *every* level is allocated in full, leaves too, so it
// takes 8 * 9^k keys for the least k that holds all boundaries (38 MB from some
// 236 thousand routes on). Two boundaries a route, not merged. Lookups in
// batches of 32, each level for all 32 before the next; next hops lie apart.
//
// Its known wrong answers are mended: ends come before starts at the same
// address, ranges that reach the last address do not wrap, the padding is told
// from the last /64, and a miss (0) from every next hop.
//
// As there, IPv6 and prefixes up to /64 only.
// O(routes).
// Errors: UNIMPLEMENTED for IPv4 and for prefixes longer than /64 (which
// planb-lpm drops silently).
absl::StatusOr<std::unique_ptr<const Baseline>> BuildReference(
    Family family, absl::Span<const Route> routes,
    RivalKernel kernel = RivalKernel::kBest);

// A path-compressed binary trie (Morrison's PATRICIA, J. ACM 15(4), 1968), the
// conventional one that planb-lpm compares with. A node is a prefix that is a
// route or at which two part, with the bits that were skipped: a search stops
// at the first that does not hold its address. Nodes are 32 bytes in one array,
// in the order of a walk. O(routes); a search visits as many nodes as nest
// there.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildPatricia(
    Family family, absl::Span<const Route> routes,
    Turns turns = Turns::kTogether);

// Poptrie (Asai and Ohara, "Poptrie: A Compressed Trie with Population Count
// for Fast and Scalable Software IP Routing Table Lookup", SIGCOMM '15): a trie
// of 64 children a node behind a table directly indexed by 18 bits. Neighbours
// with the same next hop are one route (the paper's optional route
// aggregation), so that a node with equal leaves only is a leaf. A node is 24
// bytes: a vector of which children are nodes, one of where a run of equal
// leaves begins (their leaf compression), and where its nodes and its leaves
// begin, each found by counting bits. Leaves are numbers of next hops, of 16
// bits where that is enough, else of 32.
//
// Exact to /128: the last stride of an IPv6 address is its last two bits with
// four of 0 behind them. The public code is wrong there.
// O(64 * nodes). Steps without a branch, 32 addresses in turns; the paper's
// loop is the same for one. Errors: UNIMPLEMENTED without POPCNT and BMI2;
// RESOURCE_EXHAUSTED for 2^31 nodes or leaves.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildPoptrie(
    Family family, absl::Span<const Route> routes,
    Turns turns = Turns::kTogether);

// Binary search on prefix lengths (Waldvogel, Varghese, Turner and Plattner,
// "Scalable High Speed IP Routing Lookups", SIGCOMM '97), the scheme that HBS
// ("Heuristic Binary Search", Jiang et al., IEEE Transactions on Networking
// 2025) builds on: a hash table for each length, markers that carry the next
// hop of the longest match up to them. In the form of its sections on mutating
// search: 16 bits are an index, and each entry names the lengths to try on the
// misses after it (its rope), of the routes behind it alone.
//
// The PlanB paper (2.2) says that HBS prunes by the origins of a marker, which
// ropes do to the full, and adapts its tree to the lengths of the prefixes by
// rotation; here each rope is a path of the best tree for the routes behind it.
// HBS as such is not rebuilt: its details were not at hand. Inferred are hash
// function, buckets (three keys in a cache line, half full; of more than 64
// bits two lines) and turns. O(routes * lengths^2).
absl::StatusOr<std::unique_ptr<const Baseline>> BuildHbs(
    Family family, absl::Span<const Route> routes,
    Turns turns = Turns::kTogether);

struct CpTrieOptions {
  // Poptrie's compression of leaves and aggregation of routes, which CP-Trie
  // could have: a leaf is the first of a run, which may go on in the next node.
  bool compress = false;
  Turns turns = Turns::kTogether;
};

// CP-Trie (Islam and Khan, "CP-Trie: Cumulative PopCount based Trie for IPv6
// Routing Table Lookup in Software and ASIC", HPSR '21): a trie of 2^16
// children at the first level and 2^8 at each after it, leaf-pushed. Each level
// has two bitmaps, of leaves and of nodes; each 64 bits lie beside the number
// of bits set before them, so that one popcount finds a leaf or a node in
// arrays that the levels share. Leaves are not compressed, routes not
// aggregated.
//
// The PlanB paper (2.2) says no more than cumulative popcount and longer fixed
// strides. Strides, bitmaps and counts are as in the text of the authors'
// public code; of that nothing was taken. Inferred is that an element takes 16
// bytes (12 and padding), so that a node of each bitmap is a cache line.
// Numbers of next hops have 16 bits, or 32 where that is not enough; there, 8.
// O(256 * nodes).
// Errors: UNIMPLEMENTED without POPCNT and BMI2; RESOURCE_EXHAUSTED for 2^32
// leaves or elements.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildCpTrie(
    Family family, absl::Span<const Route> routes,
    const CpTrieOptions& options = {});

// SAIL_L (Yang et al., "Guarantee IP Lookup Performance with FIB Explosion",
// SIGCOMM '14) for IPv4: prefixes are pushed to the levels 16, 24 and 32. An
// entry of the first two is a next hop or the number of a chunk of 256 entries
// of the next level; one bit tells which.
//
// As published entries have 16 bits; 32 where there are more than 2^15 next
// hops or chunks of a level, which the Internet's table does not have. Next
// hops are numbers of a list, as there. Lookups take 32 addresses, a level
// after the other. O(256 * chunks). Errors: UNIMPLEMENTED for IPv6.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildSail(
    Family family, absl::Span<const Route> routes);

struct RangeTreeOptions {
  // Whether nodes hold upper bounds alone, and a search ends at a leaf. The
  // paper takes explicit ranges for software, where it ends at the node that
  // holds the address.
  bool implicit = false;
  Turns turns = Turns::kTogether;
};

// Disjoint partitions of a table (section IV).
struct RangePartitions {
  size_t initial = 0;         // n_i, the bins with prefixes
  std::vector<size_t> sizes;  // prefixes in each of the n_a aggregated ones
  // By the first bits: 0 for a bin without prefixes, else one plus the
  // partition's index.
  std::vector<uint32_t> of_bins;
};

// Forms partitions by the first `bits` (1..24) and puts them together until
// they have as many prefixes as the largest one, as in Table II. Shorter
// prefixes are expanded. O(routes + 2^bits), besides sorting.
RangePartitions PartitionRoutes(absl::Span<const Route> routes, int bits);

// Range trees over balanced disjoint partitions (Ganegedara and Prasanna, "100+
// Gbps IPv6 Packet Forwarding on Multi-Core Platforms", sections III-V): a
// table by the first 16 bits names the partition, and a binary search tree of
// its ranges the next hop. Trees are arrays in the order of their levels, so
// that no node holds a pointer; the ranges of neighbours with the same next hop
// are one.
//
// Keys have 64 bits as published (IPv4: 32); /64s with longer prefixes have
// sorted starts of their own. One thread, which is one of the paper's masters.
// O(routes). Errors: UNIMPLEMENTED if a next hop is 2^31 or more.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildRangeTree(
    Family family, absl::Span<const Route> routes,
    const RangeTreeOptions& options = {});

struct BloomOptions {
  // DPCPE's filters, at most. The paper's best are 5.
  int levels = 6;
  RivalKernel kernel = RivalKernel::kBest;
};

// Bloom filters ahead of hash tables (Lucchesi et al., "High-Performance IP
// Lookup Using Intel Xeon Phi: a Bloom Filters Based Approach", sections 3 and
// 4): a filter for each of some lengths, the longest first; what passes one is
// searched in its table, and the rest in a table directly indexed by 20 bits.
// Hashes are computed for eight addresses by AVX-512, two of 32 bits for each,
// of which all others are sums; the first also places a key in its table. They
// are those that the paper chose: H2 for IPv4, Murmur's for IPv6. A filter has
// as many bits and hashes as let pass 5% of what is not in it; the paper's best
// are 30%, where a probe of a table costs less. 128 addresses go through the
// levels together.
//
// Differs: ranges of hashes are scaled by a product, not a division; tables
// have open addresses, half of them empty, in place of lists; filters do not
// count, since nothing is withdrawn. /64s with longer prefixes have sorted
// starts of their own.
// O(expanded prefixes). Errors: UNIMPLEMENTED if a next hop is 2^31 or more;
// RESOURCE_EXHAUSTED for 2^26 expanded prefixes. REQUIRES: levels > 0.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildBloom(
    Family family, absl::Span<const Route> routes,
    const BloomOptions& options = {});

// DPCPE (section 4.2): the lengths, at most `levels` of them beyond
// `direct_bits` and the longest prefix's among them, to which prefixes are
// expanded so that they are fewest, ascending; as few as do. Exact, by dynamic
// programming over the last length but one; the paper adds the best length to
// those before. As there, prefixes expanded to the same one count each.
// O(routes + levels * 128^2).
std::vector<int> ExpansionLengths(absl::Span<const Route> routes,
                                  int direct_bits, int levels);

struct LearnedOptions {
  // How far a line may be away from a key's place, at least 1. The paper's best
  // is 32. With 13 a window of IPv4 is two vectors.
  double error = 13;
  // m, the first bits that name a model, up to 28; 0 is the least for which
  // they name one and no more, up to 22 (IPv6: 16, where more bring nothing).
  int bits = 0;
  RivalKernel kernel = RivalKernel::kBest;
};

// The learned FIB (Higuchi et al., "Learned FIB: Fast IP Forwarding without
// Longest Prefix Matching", sections V and VI): lines approximate the place of
// an address among the sorted starts of intervals; a table by the first bits
// names a neural network of eight neurons with ReLU that is at most eight of
// these lines; its output, one FMA, is where a window of keys begins, and
// counting those that are not beyond the address ends the search. No branch
// depends on the address. Weights follow from the lines, so nothing is drawn at
// random. After that the error is measured at both ends of all intervals, and
// windows are as wide as the worst; should a window not hold an address's
// place, a binary search finds it.
//
// IPv4 as published: floats and 32-bit keys. For IPv6, which the paper leaves
// open, it took: doubles, for a float tells only 2^24 addresses apart (eight
// fill a vector, so the cost is the same); a few steps of binary search over
// the models of a slot, for however many first bits, the Internet's prefixes
// crowd within a few; keys of 64 bits, half as many in a vector; and sorted
// starts for /64s with longer prefixes.
// O(routes + 2^bits). Errors: UNIMPLEMENTED if a next hop is 2^31 or more;
// INVALID_ARGUMENT.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildLearned(
    Family family, absl::Span<const Route> routes,
    const LearnedOptions& options = {});

// The multi-index hybrid trie, as the Bloom filters' paper describes it
// (section 5): the first k bits of routes are keys of a B+-tree of order m,
// searched by halves within each node, and the rest of each route lies in a
// priority trie of its key, where a route that is longer than its node is deep
// ends the search. Routes shorter than k lie in one trie besides, for addresses
// without another. (k, m) are (16, 16) for IPv4 and (32, 32) for IPv6, the
// paper's best.
//
// The B+-tree is complete, so that places of children follow from their
// parent's, and aligned to cache lines. A step of one search is followed by one
// of each of 31 others. /64s with longer prefixes have sorted starts of their
// own. O(32 * routes). Errors: UNIMPLEMENTED if a next hop is 2^31 or more.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildMiht(
    Family family, absl::Span<const Route> routes,
    Turns turns = Turns::kTogether);

struct AdaptiveTrieOptions {
  // The budget: entries, of 4 bytes, for each interval.
  double entries_per_interval = 32;
  Turns turns = Turns::kTogether;
};

// Neurotrie as the PlanB paper (section 2.1) describes it: a trie with a stride
// of its own for each node, so as to be shallow within a budget of memory.
// Instead of deep reinforcement learning, dynamic programming chooses all
// strides: the fewest nodes on the way to an interval, each as likely as any
// other, plus a price for each entry; and a search the price, so that the
// budget is kept. No other strides are shallower in as many entries.
//
// A node is an array of entries, each a number of a next hop or another node.
// Strides of up to 20 bits. /64s with longer prefixes have sorted starts of
// their own. O(20 * nodes of a binary trie), 17 times. Errors: UNIMPLEMENTED if
// a next hop is 2^31 or more; RESOURCE_EXHAUSTED for 2^26 entries.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildAdaptiveTrie(
    Family family, absl::Span<const Route> routes,
    const AdaptiveTrieOptions& options = {});

// DPDK's FIBs as baselines. rte_fib6: a trie of one 24-bit table and 8-bit ones
// below it, looked up by AVX-512 gathers; rte_fib: DIR-24-8. Next hops have 4
// bytes, or 8 if one is 2^31 or more.
//
// Optional: needs Debian's libdpdk-dev, so its targets are tagged "manual".
// DPDK is set up once in a process, with no huge pages and no devices
// (--no-huge --no-shconf --no-pci); its memory is a file in memory, which huge
// pages reach only where the administrator says so (shmem_enabled).
//
// Adds the routes one by one, with room for a quarter and 4,096 more. Its bulk
// lookup fills an array of 64-bit next hops, which are then narrowed to 32, 256
// at a time. Unlike others, Update may be called while others look up, as DPDK
// promises no more than: 22.11 gives a table of 8 bits that it freed to the
// next route at once, so an answer that is on its way may be another route's.
// bytes() counts the tables that the routes of the build need by DPDK's layout,
// not the reserve it insists on (which no lookup reads), nor its list of
// routes. Errors: RESOURCE_EXHAUSTED if it does not fit DPDK's memory (6 GB,
// touched as used).
absl::StatusOr<std::unique_ptr<UpdatableBaseline>> BuildDpdkFib(
    Family family, absl::Span<const Route> routes,
    RivalKernel kernel = RivalKernel::kBest);

// DPDK's older rte_lpm6: the same trie, with 21 bits for a next hop, so that
// answers are translated, and without vectors: `kernel` does not matter. The
// rest as BuildDpdkFib. Errors: UNIMPLEMENTED for IPv4 and for 2^21 distinct
// next hops; RESOURCE_EXHAUSTED. A ::/0 is added as its two halves, which
// longer prefixes then overwrite.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildDpdkLpm6(
    Family family, absl::Span<const Route> routes,
    RivalKernel kernel = RivalKernel::kBest);

namespace paper {

// The engine of the PlanB paper as a baseline.
//
// "PlanB: Efficient Software IPv6 Lookup with Linearized B+-Tree", NSDI '26.
// The paper's tree, its search (Listing 1), batching and unrolling (3.4, 3.5)
// and its build (Algorithm 2); paper.h says where they deviate, each time in
// order to answer exactly. 32 addresses are searched together. The paper reads
// 64-bit keys that were brought into registers before; here, as everywhere in
// these measurements, packed 16-byte addresses are read in place and next hops
// written out.

enum class Boundaries {
  // Each route's start and the address after its end are an entry each, as in
  // Algorithm 2: 2 * routes, whether or not others lie at the same address.
  kAll,
  // One entry an address: the disjoint intervals of section 3.1.
  kDistinct,
  // And none where the next hop stays the same.
  kMerged,
};

struct PaperOptions {
  // The paper does not merge.
  Boundaries boundaries = Boundaries::kAll;
  // "auto", "avx512", "avx2" or "scalar". Or, one address at a time, the rungs
  // of the paper's ablation (section 4.5): "branchfree" compares key after key,
  // "autovector" is what the compiler makes of that with AVX-512 allowed, and
  // "unbatched" is "avx512" without batches.
  std::string kernel = "auto";
};

// O(routes).
// Errors: INVALID_ARGUMENT for options that name nothing this machine has;
// UNIMPLEMENTED if a next hop is 2^31 or more (the bit marks a second stage).
absl::StatusOr<std::unique_ptr<const Baseline>> BuildPaper(
    Family family, absl::Span<const Route> routes,
    const PaperOptions& options = {});

// The baseline of the paper's ablation (section 4.5): std::upper_bound over the
// sorted starts of the same intervals, one address at a time. Upper halves
// first, lower ones where a prefix longer than /64 decides.
// O(routes).
// Errors: UNIMPLEMENTED if a next hop is 2^31 or more.
absl::StatusOr<std::unique_ptr<const Baseline>> BuildUpperBound(
    Family family, absl::Span<const Route> routes,
    Boundaries boundaries = Boundaries::kAll);

}  // namespace paper
}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_RIVALS_H_
