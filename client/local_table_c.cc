// SPDX-License-Identifier: Apache-2.0

#include "client/local_table_c.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/attributes.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "follow/convert.h"

using planb::Deadline;
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
  return LocalTable::Follow(
      *std::move(channel), std::move(options),
      Deadline::After(absl::Milliseconds(from->timeout_ms)));
}

// Returns what `call` returns of the table, as a code. Lets no exception out.
template <typename Call>
int CodeOf(const planb_local* table, const Call& call) noexcept {
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  if (table == nullptr) return static_cast<int>(code);
  try {
    code = call(*table->table).code();
  } catch (const std::bad_alloc&) {
    code = absl::StatusCode::kResourceExhausted;
  } catch (const std::exception&) {
    code = absl::StatusCode::kInternal;
  }
  return static_cast<int>(code);
}

int Lookup(const planb_local* table, Family family, const void* addresses,
           size_t count, uint32_t* next_hops, uint64_t* generation) {
  return CodeOf(table, [&](const LocalTable& local) {
    const auto answered = local.Lookup(family, addresses, count, next_hops);
    if (answered.ok() && generation != nullptr) *generation = *answered;
    return answered.status();
  });
}

// As Follow(), and lets no exception out.
absl::StatusOr<std::unique_ptr<planb_local>> Open(
    const planb_local_options* options) noexcept {
  try {
    auto followed = Follow(options);
    if (!followed.ok()) return followed.status();
    return std::unique_ptr<planb_local>(new planb_local{*std::move(followed)});
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory");
  } catch (const std::exception& thrown) {
    return absl::InternalError(thrown.what());
  }
}

}  // namespace

int planb_local_follow(const planb_local_options* options, planb_local** table,
                       char* error, size_t error_size) {
  // Before it follows: there is no place for the table.
  absl::StatusOr<std::unique_ptr<planb_local>> opened =
      absl::InvalidArgumentError("the table has no place: it is NULL");
  if (table != nullptr) opened = Open(options);
  if (opened.ok()) {
    *table = opened->release();
    return 0;
  }
  if (error != nullptr && error_size > 0) {
    const absl::string_view text = opened.status().message();
    const size_t size = std::min(text.size(), error_size - 1);
    std::memcpy(error, text.data(), size);
    error[size] = '\0';
  }
  return static_cast<int>(opened.status().code());
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

int planb_local_origin(const planb_local* table, uint32_t next_hop,
                       uint32_t* origin_as, char* as_path,
                       size_t as_path_size) {
  return CodeOf(table, [&](const LocalTable& local) {
    const auto objects = local.routes().objects();
    const planb::NextHop* const hop = objects->FindNextHop(next_hop);
    if (hop == nullptr) return absl::NotFoundError("no such next hop");
    const auto attributes = planb::ToProto(hop->attributes);
    if (origin_as != nullptr) *origin_as = attributes.origin_as();
    if (as_path != nullptr && as_path_size > 0) {
      const std::string path = planb::client::AsPathText(attributes);
      as_path[path.copy(as_path, as_path_size - 1)] = '\0';
    }
    return absl::OkStatus();
  });
}

uint64_t planb_local_generation(const planb_local* table) {
  uint64_t generation = 0;
  CodeOf(table, [&](const LocalTable& local) {
    generation = local.generation();
    return absl::OkStatus();
  });
  return generation;
}

int planb_local_wait(const planb_local* table, uint64_t generation,
                     int64_t timeout_ms) {
  return CodeOf(table, [&](const LocalTable& local) {
    return local.WaitFor(generation,
                         Deadline::After(absl::Milliseconds(timeout_ms)));
  });
}

int64_t planb_local_staleness_ms(const planb_local* table) {
  return table == nullptr
             ? -1
             : absl::ToInt64Milliseconds(table->table->staleness());
}

void planb_local_close(planb_local* table) {
  // Of a fork, the threads that it would wait for are not there.
  if (table != nullptr && table->table->forked()) return;
  delete table;
}
