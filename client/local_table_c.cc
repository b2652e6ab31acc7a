// SPDX-License-Identifier: Apache-2.0

#include "client/local_table_c.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/local_table.h"

using planb::Family;
using planb::client::LocalTable;
using planb::client::LocalTableOptions;

struct planb_local {
  std::unique_ptr<LocalTable> table;
};

namespace {

absl::StatusOr<std::unique_ptr<LocalTable>> Open(const char* server,
                                                 const char* table,
                                                 int64_t timeout_ms,
                                                 int64_t max_staleness_ms) {
  auto channel = planb::client::MakeChannel(server, {.own_connection = true});
  if (!channel.ok()) return channel.status();
  LocalTableOptions options;
  if (table != nullptr) options.table = table;
  if (max_staleness_ms > 0) {
    options.max_staleness = absl::Milliseconds(max_staleness_ms);
  }
  return LocalTable::Follow(*std::move(channel), std::move(options),
                            absl::Now() + absl::Milliseconds(timeout_ms));
}

int Lookup(const planb_local* table, Family family, const void* addresses,
           size_t count, uint32_t* next_hops, uint64_t* generation) {
  const auto answered =
      table->table->Lookup(family, addresses, count, next_hops);
  if (!answered.ok()) return static_cast<int>(answered.status().code());
  if (generation != nullptr) *generation = *answered;
  return 0;
}

}  // namespace

planb_local* planb_local_open(const char* server, const char* table,
                              int64_t timeout_ms, int64_t max_staleness_ms,
                              char* error, size_t error_size) {
  auto opened = Open(server, table, timeout_ms, max_staleness_ms);
  if (opened.ok()) return new planb_local{*std::move(opened)};
  if (error != nullptr && error_size > 0) {
    const absl::string_view text = opened.status().message();
    const size_t size = std::min(text.size(), error_size - 1);
    std::memcpy(error, text.data(), size);
    error[size] = '\0';
  }
  return nullptr;
}

int planb_local_lookup_v6(const planb_local* table, const void* addresses,
                          size_t count, uint32_t* next_hops,
                          uint64_t* generation) {
  return Lookup(table, Family::kIpv6, addresses, count, next_hops, generation);
}

int planb_local_lookup_v4(const planb_local* table, const void* addresses,
                          size_t count, uint32_t* next_hops,
                          uint64_t* generation) {
  return Lookup(table, Family::kIpv4, addresses, count, next_hops, generation);
}

uint64_t planb_local_generation(const planb_local* table) {
  return table->table->generation();
}

int planb_local_wait(const planb_local* table, uint64_t generation,
                     int64_t timeout_ms) {
  return static_cast<int>(
      table->table
          ->WaitFor(generation, absl::Now() + absl::Milliseconds(timeout_ms))
          .code());
}

int64_t planb_local_staleness_ms(const planb_local* table) {
  return absl::ToInt64Milliseconds(table->table->staleness());
}

void planb_local_close(planb_local* table) { delete table; }
