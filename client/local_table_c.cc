// SPDX-License-Identifier: Apache-2.0

#include "client/local_table_c.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/local_table.h"

using planb::Family;
using planb::client::ChannelOptions;
using planb::client::LocalTable;
using planb::client::LocalTableOptions;

struct planb_local {
  std::unique_ptr<LocalTable> table;
};

namespace {

constexpr size_t kLongestText = 4096;
// Of any version of the options.
constexpr size_t kLargestOptions = 4096;

// The options as this version knows them.
absl::StatusOr<planb_local_options> Known(const planb_local_options* given) {
  planb_local_options options = {};
  if (given == nullptr || given->size > kLargestOptions ||
      given->size < offsetof(planb_local_options, table)) {
    return absl::InvalidArgumentError("the options have no valid size");
  }
  std::memcpy(&options, given, std::min(given->size, sizeof(options)));
  const auto* const bytes = reinterpret_cast<const char*>(given);
  if (given->size > sizeof(options) &&
      std::any_of(bytes + sizeof(options), bytes + given->size,
                  [](char byte) { return byte != 0; })) {
    return absl::InvalidArgumentError(
        "the options have fields that this library does not know");
  }
  if (options.server == nullptr) {
    return absl::InvalidArgumentError("the options have no server");
  }
  for (const char* text :
       {options.server, options.table, options.tls_ca, options.tls_cert,
        options.tls_key, options.tls_server_name}) {
    if (text != nullptr && strnlen(text, kLongestText + 1) > kLongestText) {
      return absl::InvalidArgumentError(
          "a text of the options has more than 4,096 bytes");
    }
  }
  return options;
}

std::string OrEmpty(const char* text) { return text == nullptr ? "" : text; }

absl::StatusOr<std::unique_ptr<LocalTable>> Follow(
    const planb_local_options* given) {
  const auto from = Known(given);
  if (!from.ok()) return from.status();
  ChannelOptions how = {.own_connection = true};
  if (from->tls_ca != nullptr || from->tls_cert != nullptr ||
      from->tls_key != nullptr || from->tls_server_name != nullptr) {
    how.tls = {.ca = OrEmpty(from->tls_ca),
               .cert = OrEmpty(from->tls_cert),
               .key = OrEmpty(from->tls_key),
               .server_name = OrEmpty(from->tls_server_name)};
  }
  auto channel = planb::client::MakeChannel(from->server, how);
  if (!channel.ok()) return channel.status();
  LocalTableOptions options = {.table = OrEmpty(from->table)};
  if (from->max_staleness_ms > 0) {
    options.max_staleness = absl::Milliseconds(from->max_staleness_ms);
  }
  return LocalTable::Follow(*std::move(channel), std::move(options),
                            absl::Now() + absl::Milliseconds(from->timeout_ms));
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

int planb_local_follow(const planb_local_options* options, planb_local** table,
                       char* error, size_t error_size) {
  auto followed = Follow(options);
  if (followed.ok()) {
    *table = new planb_local{*std::move(followed)};
    return 0;
  }
  if (error != nullptr && error_size > 0) {
    const absl::string_view text = followed.status().message();
    const size_t size = std::min(text.size(), error_size - 1);
    std::memcpy(error, text.data(), size);
    error[size] = '\0';
  }
  return static_cast<int>(followed.status().code());
}

planb_local* planb_local_open(const char* server, const char* table,
                              int64_t timeout_ms, int64_t max_staleness_ms,
                              char* error, size_t error_size) {
  const planb_local_options options = {.size = sizeof(options),
                                       .server = server,
                                       .table = table,
                                       .timeout_ms = timeout_ms,
                                       .max_staleness_ms = max_staleness_ms};
  planb_local* opened = nullptr;
  planb_local_follow(&options, &opened, error, error_size);
  return opened;
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
