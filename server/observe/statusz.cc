// SPDX-License-Identifier: Apache-2.0

#include "server/observe/statusz.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <openssl/sha.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/utf8.h"

namespace planb::server {
namespace {

using google::protobuf::FieldDescriptor;
using prometheus::ClientMetric;
using prometheus::MetricFamily;

constexpr char kHtml[] =
#include "server/observe/statusz_html.inc"
    ;

double SumOfCounters(const MetricFamily& family) {
  double sum = 0;
  for (const ClientMetric& metric : family.metric) sum += metric.counter.value;
  return sum;
}

void AddDurations(const ClientMetric::Histogram& histogram,
                  statusz::Lookups& lookups) {
  lookups.set_batch_seconds_sum(histogram.sample_sum);
  for (const auto& bucket : histogram.bucket) {
    if (bucket.upper_bound > 1e9) continue;  // infinity: all of them
    statusz::Lookups::Bucket& out = *lookups.add_batch_seconds();
    out.set_seconds(bucket.upper_bound);
    out.set_batches(static_cast<double>(bucket.cumulative_count));
  }
}

void AddLabels(const MetricFamily& family, statusz::ServerState& state) {
  const bool info = absl::EndsWith(family.name, "_info");
  for (const ClientMetric& metric : family.metric) {
    for (const ClientMetric::Label& label : metric.label) {
      if (info) {
        statusz::Fact& fact = *state.add_process();
        fact.set_name(label.name);
        fact.set_value(label.value);
      } else if (label.name == "reason" && metric.counter.value >= 1) {
        statusz::ErrorCount& error = *state.add_errors();
        error.set_reason(label.value);
        error.set_count(metric.counter.value);
        error.set_of(family.name);
      }
    }
  }
}

// Flags and paths may be any bytes.
void MakeUtf8(google::protobuf::Message& message) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  fields.ListFields(message, &present);
  for (const FieldDescriptor* const field : present) {
    const int size =
        field->is_repeated() ? fields.FieldSize(message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        MakeUtf8(*fields.MutableMessage(&message, field));
      }
      for (int i = 0; i < size; ++i) {
        MakeUtf8(*fields.MutableRepeatedMessage(&message, field, i));
      }
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (!field->is_repeated()) {
        fields.SetString(&message, field,
                         ToUtf8(fields.GetString(message, field)));
      }
      for (int i = 0; i < size; ++i) {
        fields.SetRepeatedString(
            &message, field, i,
            ToUtf8(fields.GetRepeatedString(message, field, i)));
      }
    }
  }
}

// The hash by which a Content-Security-Policy names the page's only element of
// this kind.
std::string SourceHash(absl::string_view element) {
  absl::string_view text = kHtml;
  const std::string begin = absl::StrCat("<", element, ">");
  text.remove_prefix(text.find(begin) + begin.size());
  text = text.substr(0, text.find(absl::StrCat("</", element, ">")));
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         hash);
  return absl::StrCat("'sha256-",
                      absl::Base64Escape(absl::string_view(
                          reinterpret_cast<const char*>(hash), sizeof(hash))),
                      "'");
}

}  // namespace

void AddMetrics(const std::vector<MetricFamily>& metrics,
                statusz::ServerState& state) {
  statusz::Lookups& lookups = *state.mutable_lookups();
  statusz::Store& store = *state.mutable_store();
  for (const MetricFamily& family : metrics) {
    AddLabels(family, state);
    if (family.name == "planb_lookups_total") {
      lookups.set_addresses(SumOfCounters(family));
    } else if (family.name == "planb_lookup_misses_total") {
      lookups.set_misses(SumOfCounters(family));
    } else if (family.name == "planb_lookup_batches_total") {
      lookups.set_batches(SumOfCounters(family));
    } else if (family.name == "planb_lookup_batch_duration_seconds") {
      for (const auto& one : family.metric) {
        AddDurations(one.histogram, lookups);
      }
    } else if (family.name == "planb_store_commit_seconds") {
      for (const auto& one : family.metric) {
        store.set_commits(static_cast<double>(one.histogram.sample_count));
        store.set_commit_seconds_sum(one.histogram.sample_sum);
      }
    } else if (family.name == "planb_store_errors_total") {
      store.set_errors(SumOfCounters(family));
    }
  }
}

void AddRebuild(const RebuildRecord& rebuild, statusz::ServerState& state) {
  statusz::Rebuild& out = *state.add_rebuilds();
  out.set_unix_seconds(absl::ToDoubleSeconds(rebuild.at - absl::UnixEpoch()));
  out.set_table(rebuild.table);
  out.set_generation(static_cast<double>(rebuild.generation));
  out.set_full(rebuild.full);
  out.set_seconds(absl::ToDoubleSeconds(rebuild.took));
  out.set_error(rebuild.error);
}

void AddFlags(statusz::ServerState& state) {
  std::map<std::string, statusz::Flag> flags;  // by name
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    const std::string file = flag->Filename();
    if (!absl::StrContains(file, "server/") ||
        !absl::EndsWith(file, "_flags.cc")) {
      continue;
    }
    statusz::Flag& out = flags[std::string(name)];
    out.set_name(std::string(name));
    out.set_value(flag->CurrentValue());
    out.set_is_default(out.value() == flag->DefaultValue());
    for (const char* secret : {"secret", "password", "token"}) {
      if (absl::StrContains(name, secret)) out.set_value("(not shown)");
    }
  }
  for (auto& [name, flag] : flags) *state.add_flags() = std::move(flag);
}

std::string ToJson(statusz::ServerState state) {
  std::stable_sort(
      state.mutable_errors()->begin(), state.mutable_errors()->end(),
      [](const auto& a, const auto& b) { return a.count() > b.count(); });
  MakeUtf8(state);
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(state, &json, options);
  ABSL_RAW_CHECK(status.ok(), "a ServerState has no JSON form");
  json += '\n';
  return json;
}

absl::string_view StatuszHtml() { return kHtml; }

std::string StatuszSources() {
  return absl::StrCat("script-src ", SourceHash("script"), "; style-src ",
                      SourceHash("style"), "; connect-src 'self'; ");
}

}  // namespace planb::server
