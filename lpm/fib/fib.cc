// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib.h"

#include <endian.h>

#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "lpm/fib/fib_arena.h"
#include "lpm/fib/fib_builder.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/kernel_table.h"

namespace planb {

std::unique_ptr<const Fib> FibBuilder::Make(TableCompiler& table,
                                            std::shared_ptr<FibArena> arena,
                                            uint64_t generation) {
  std::unique_ptr<Fib> fib(new Fib);
  // First what the destructor goes by: an allocation below may throw.
  fib->arena_ = std::move(arena);
  fib->generation_ = generation;
  fib->arena_->Enter(generation);
  fib->family_ = table.family();
  fib->value_bytes_ = table.values().value_bytes();
  fib->root_ = std::make_unique<FibRoot>(table.root());
  fib->next_hops_ = table.values().next_hops();
  fib->next_hop_count_ = table.values().next_hop_count();
  return fib;
}

absl::StatusOr<std::unique_ptr<const Fib>> Fib::Build(
    Family family, absl::Span<const Route> routes) {
  return Build(family, routes, FibLimits());
}

absl::StatusOr<std::unique_ptr<const Fib>> Fib::Build(
    Family family, absl::Span<const Route> routes, const FibLimits& limits) {
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(previous == nullptr || previous->prefix < route.prefix,
                   "routes must ascend strictly by prefix");
    ABSL_RAW_CHECK(route.prefix.family() == family, "route of another family");
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
    previous = &route;
  }
  const absl::StatusOr<std::unique_ptr<TableCompiler>> compiled =
      CompileTable(family, routes, limits);
  if (!compiled.ok()) return compiled.status();
  TableCompiler& table = **compiled;
  // Of exactly the size needed.
  auto arena = std::make_shared<FibArena>(table.lines().used(),
                                          table.descriptors().used());
  table.lines().MoveTo(arena->lines(), arena->line_capacity());
  table.descriptors().MoveTo(arena->descriptors(),
                             arena->descriptor_capacity());
  return FibBuilder::Make(table, std::move(arena), 0);
}

Fib::~Fib() { arena_->Leave(generation_); }

FibView Fib::View() const {
  return {root_->entries.data(), arena_->lines(), arena_->descriptors(),
          next_hops_.get(), value_bytes_};
}

void Fib::Lookup(const void* addresses, size_t count, void* next_hops,
                 const Kernel& kernel) const {
  kernel.lookup(View(), family_, addresses, count, next_hops);
}

void Fib::LookupUpper(const void* upper_halves, size_t count, void* next_hops,
                      const Kernel& kernel) const {
  ABSL_RAW_CHECK(family_ == Family::kIpv6, "an IPv4 address has no upper half");
  kernel.lookup_upper(View(), upper_halves, count, next_hops);
}

NextHopId Fib::Lookup(const Address& address, const Kernel& kernel) const {
  ABSL_RAW_CHECK(address.family() == family_, "address of another family");
  NextHopId next_hop;
  Lookup(address.ToPacked().data(), 1, &next_hop, kernel);
  return le32toh(next_hop);
}

size_t Fib::own_bytes() { return sizeof(Fib) + sizeof(FibRoot); }

size_t Fib::bytes() const {
  return own_bytes() + arena_->line_capacity() * sizeof(Line) +
         arena_->descriptor_capacity() * sizeof(Descriptor) +
         next_hop_count_ * sizeof(NextHopId);
}

}  // namespace planb
