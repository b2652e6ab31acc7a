// SPDX-License-Identifier: Apache-2.0

// What the sources of EtcdStore share: its errors, and the parts of a
// transaction of etcd.

#ifndef PLANB_SERVER_STORE_ETCD_TXN_H_
#define PLANB_SERVER_STORE_ETCD_TXN_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "etcd.pb.h"
#include "etcd_records.pb.h"
#include "server/base/error.h"
#include "server/table/store.h"

namespace planb::server {

// 16 digits, so that keys are in the order of numbers.
inline std::string Hex(uint64_t number) {
  return absl::StrCat(absl::Hex(number, absl::kZeroPad16));
}

inline absl::Status Failed(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    return QuotaError("STORE_FULL", "store", status.message(),
                      absl::Seconds(1));
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
               status.message());
}

// Of a transaction that failed. `lost`: etcd may have made it all the same.
inline absl::Status Failed(const absl::Status& status, bool lost) {
  if (!lost) return Failed(status);
  return Error(absl::StatusCode::kDeadlineExceeded, "STORE_UNDECIDED",
               status.message());
}

inline absl::Status Corrupt(absl::string_view key, absl::string_view what) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat(absl::CHexEscape(key), " ", what));
}

inline absl::Status NoTable(absl::string_view name) {
  return FieldError(absl::StatusCode::kNotFound, "TABLE_NOT_FOUND", "table",
                    absl::StrCat("there is no table \"", name, "\""));
}

// True if both records are of one table after the same entries.
inline bool SameEnd(const etcd::TableRecord& a, const etcd::TableRecord& b) {
  return a.next() == b.next() && a.chain() == b.chain() &&
         a.digest() == b.digest();
}

inline void AddPut(const std::string& key, const std::string& value,
                   etcdserverpb::TxnRequest& txn) {
  auto& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
}

// `end` empty: the key alone.
inline void AddDelete(const std::string& key, const std::string& end,
                      etcdserverpb::TxnRequest& txn) {
  auto& erase = *txn.add_success()->mutable_request_delete_range();
  erase.set_key(key);
  erase.set_range_end(end);
}

inline void CompareRevision(const std::string& key, int64_t revision,
                            etcdserverpb::TxnRequest& txn) {
  auto& compare = *txn.add_compare();
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_mod_revision(revision);
}

inline void CompareValue(const std::string& key, const std::string& value,
                         etcdserverpb::TxnRequest& txn) {
  auto& compare = *txn.add_compare();
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::VALUE);
  compare.set_value(value);
}

inline void CompareCreation(const std::string& key, int64_t revision,
                            etcdserverpb::TxnRequest& txn) {
  auto& compare = *txn.add_compare();
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::CREATE);
  compare.set_create_revision(revision);
}

// Reads the key if the comparison fails.
inline void ReadElse(const std::string& key, etcdserverpb::TxnRequest& txn) {
  txn.add_failure()->mutable_request_range()->set_key(key);
}

// What ReadElse() read; null if there is no such key.
inline const etcdserverpb::KeyValue* FoundElse(
    const etcdserverpb::TxnResponse& response, int index = 0) {
  const auto& range = response.responses(index).response_range();
  return range.kvs().empty() ? nullptr : &range.kvs(0);
}

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_ETCD_TXN_H_
