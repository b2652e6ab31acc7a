// What the made-up tables take from the real Internet: the mix of prefix
// lengths, and where the registries' blocks are.

#ifndef PLANB_LPM_SYNTHETIC_SYNTHETIC_WORLD_H_
#define PLANB_LPM_SYNTHETIC_SYNTHETIC_WORLD_H_

#include <cstdint>

#include "absl/types/span.h"
#include "lpm/address.h"

namespace planb {

// What differs between the families. The spans are of constants.
struct SyntheticWorld {
  struct Share {
    int length;
    uint64_t weight;
  };
  struct Block {
    uint64_t first;  // the top 64 bits of its left-aligned first address
    int length;
    uint64_t weight;  // how much of the table lies here
  };

  Family family;
  // Ascending by length, but the most popular last: it absorbs the rounding.
  absl::Span<const Share> mix;
  absl::Span<const Block> blocks;
  absl::Span<const Block> reserved;  // never announced
  // Up to this length a prefix is an allocation, beyond it a more specific,
  // which belongs to a site: a prefix of exactly this length.
  int site_length;
  // A run of more specifics has at most 2^this prefixes.
  int run_doublings;
  // One in so many runs starts a new site.
  uint64_t runs_per_site;
};

namespace synthetic_internal {

using Share = SyntheticWorld::Share;
using Block = SyntheticWorld::Block;

// Parts per million. The five most popular lengths have the shares of the
// paper's Table 1 (August 2025); the others share the rest as in the table of
// 2026-07-30.
inline constexpr Share kMixV6[] = {
    {20, 60},     {21, 12},    {22, 24},     {23, 24},    {24, 160},
    {25, 48},     {26, 68},    {27, 72},     {28, 640},   {29, 21990},
    {30, 2990},   {31, 1420},  {32, 110000}, {33, 22980}, {34, 21820},
    {35, 7580},   {36, 38900}, {37, 5060},   {38, 11210}, {39, 7330},
    {40, 101100}, {41, 7030},  {42, 12150},  {43, 5790},  {44, 96900},
    {45, 18190},  {46, 23460}, {47, 36280},  {49, 120},   {50, 12},
    {52, 120},    {56, 360},   {64, 810},    {80, 4},     {112, 4},
    {118, 8},     {123, 16},   {124, 4},     {125, 8},    {128, 16},
    {48, 445500},
};

inline constexpr Block kBlocksV6[] = {
    {0x2001'0000'0000'0000, 16, 11}, {0x2400'0000'0000'0000, 12, 31},
    {0x2600'0000'0000'0000, 12, 14}, {0x2620'0000'0000'0000, 16, 1},
    {0x2800'0000'0000'0000, 12, 20}, {0x2a00'0000'0000'0000, 12, 18},
    {0x2a10'0000'0000'0000, 12, 3},  {0x2c00'0000'0000'0000, 12, 2},
};

// Special purposes (RFC 2928) and documentation (RFC 3849).
inline constexpr Block kReservedV6[] = {
    {0x2001'0000'0000'0000, 23, 0},
    {0x2001'0db8'0000'0000, 32, 0},
};

// Parts per million, as in the table of 2026-07-30.
inline constexpr Share kMixV4[] = {
    {8, 14},      {9, 13},     {10, 35},    {11, 88},    {12, 271},
    {13, 531},    {14, 1081},  {15, 1955},  {16, 12517}, {17, 7701},
    {18, 12268},  {19, 23537}, {20, 43161}, {21, 49674}, {22, 104802},
    {23, 104222}, {25, 326},   {26, 492},   {27, 894},   {28, 51},
    {29, 79},     {30, 10},    {31, 5},     {32, 137},   {24, 636136},
};

inline constexpr Block kBlocksV4[] = {{0, 0, 1}};

// This network, private use, shared, loopback, link local, multicast and up.
inline constexpr Block kReservedV4[] = {
    {0x0000'0000'0000'0000, 8, 0},  {0x0a00'0000'0000'0000, 8, 0},
    {0x6440'0000'0000'0000, 10, 0}, {0x7f00'0000'0000'0000, 8, 0},
    {0xa9fe'0000'0000'0000, 16, 0}, {0xac10'0000'0000'0000, 12, 0},
    {0xc0a8'0000'0000'0000, 16, 0}, {0xe000'0000'0000'0000, 3, 0},
};

}  // namespace synthetic_internal

inline constexpr SyntheticWorld kSyntheticIpv6 = {
    .family = Family::kIpv6,
    .mix = synthetic_internal::kMixV6,
    .blocks = synthetic_internal::kBlocksV6,
    .reserved = synthetic_internal::kReservedV6,
    .site_length = 32,
    .run_doublings = 12,
    .runs_per_site = 3,
};
inline constexpr SyntheticWorld kSyntheticIpv4 = {
    .family = Family::kIpv4,
    .mix = synthetic_internal::kMixV4,
    .blocks = synthetic_internal::kBlocksV4,
    .reserved = synthetic_internal::kReservedV4,
    .site_length = 16,
    .run_doublings = 7,
    .runs_per_site = 6,
};

}  // namespace planb

#endif  // PLANB_LPM_SYNTHETIC_SYNTHETIC_WORLD_H_
