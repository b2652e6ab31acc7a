// SPDX-License-Identifier: Apache-2.0

// planbctl lookup: prints the next hop of each address.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"
#include "client/call.h"
#include "client/load/trace.h"
#include "client/lookup_client.h"
#include "client/next_hop_directory.h"
#include "client/planbctl/address_pipeline.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/record.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(bool, describe, true,
          "Also print what the next hop means. The standard input and long "
          "lists of addresses need the right to list and watch the table for "
          "that, and are answered without it where that is lacking.");
ABSL_FLAG(bool, prefixes, true,
          "Also return the matched prefix, in batches of at most 4096. Long "
          "lists of addresses are faster without, unless the table keeps "
          "prefix lengths.");

namespace planb::client {
namespace {

// Maximum of addresses in a unary call.
constexpr size_t kFew = 64;

// How long the first answer without an object waits for those of its
// generation.
constexpr absl::Duration kObjectTime = absl::Seconds(1);

// Prints answers, and remembers if one was "no route".
class Printer {
 public:
  // Describes next hops by `directory`, which may be null.
  explicit Printer(std::unique_ptr<NextHopDirectory> directory)
      : directory_(std::move(directory)) {}
  // Describes next hops by `objects`.
  explicit Printer(NextHopObjects objects)
      : objects_(std::make_shared<NextHopObjects>(std::move(objects))) {}

  void Print(const AddressAnswer& answer) {
    if (answer.next_hop == kNoRoute) missed_ = true;
    if (directory_ != nullptr) Refresh(answer);
    const std::string line = table_ ? Text(answer) : Fields(answer);
    absl::FPrintF(stdout, "%s", color_ ? Colored(line) : line);
  }

  ExitCode exit_code() const {
    return missed_ ? ExitCode::kNegative : ExitCode::kOk;
  }

 private:
  bool Knows(NextHopId id) const {
    return objects_->FindNextHop(id) != nullptr ||
           objects_->FindGroup(id) != nullptr;
  }

  // Takes the objects as they are now. The directory may not be as far as the
  // answer.
  void Refresh(const AddressAnswer& answer) {
    auto now = directory_->Read();
    if (answer.next_hop != kNoRoute && !Knows(answer.next_hop) &&
        answer.generation > std::max(now.generation, awaited_)) {
      awaited_ = answer.generation;
      // Without success it is described by what is known.
      directory_->WaitFor(answer.generation, Deadline::After(kObjectTime))
          .IgnoreError();
      now = directory_->Read();
    }
    if (now.objects == objects_) return;
    objects_ = std::move(now.objects);
    words_.clear();
  }

  std::string Fields(const AddressAnswer& answer) const {
    output::Lookup line;
    line.set_address(answer.address.ToString());
    line.set_next_hop(answer.next_hop);
    if (answer.prefix.has_value()) line.set_prefix(answer.prefix->ToString());
    line.set_generation(answer.generation);
    if (const auto* object = objects_->FindNextHop(answer.next_hop)) {
      *line.mutable_object() = ToProto(*object);
    } else if (const auto* group = objects_->FindGroup(answer.next_hop)) {
      *line.mutable_group() = ToProto(*group);
    }
    return Record(FieldsOf(line));
  }

  std::string Text(const AddressAnswer& answer) {
    const auto [words, added] = words_.try_emplace(answer.next_hop);
    if (added) words->second = Describe(answer.next_hop, *objects_);
    return absl::StrCat(
        answer.address.ToString(), "\t",
        answer.next_hop == kNoRoute
            ? "no route"
            : absl::StrCat("next hop ", answer.next_hop),
        "\t", answer.prefix.has_value() ? answer.prefix->ToString() : "-",
        "\tgeneration ", answer.generation, words->second.empty() ? "" : "\t",
        words->second, "\n");
  }

  const bool table_ = WantedForm() == OutputForm::kTable;
  const bool color_ = table_ && UsesColor(stdout);
  bool missed_ = false;
  const std::unique_ptr<NextHopDirectory> directory_;
  uint64_t awaited_ = 0;  // the newest generation that was waited for
  std::shared_ptr<const NextHopObjects> objects_ =
      std::make_shared<NextHopObjects>();
  // What they mean, of ids that were printed.
  absl::flat_hash_map<NextHopId, std::string> words_;
};

// The objects of answers. The server tells those of next hops in the same call;
// groups, and their members, have to be listed.
NextHopObjects ObjectsOf(const std::shared_ptr<grpc::Channel>& channel,
                         const std::vector<LookupAnswer>& answers) {
  NextHopObjects objects;
  if (absl::c_any_of(answers, [](const LookupAnswer& answer) {
        // A member is no group: without an object there is none.
        return answer.next_hop != kNoRoute && answer.member == kNoRoute &&
               !answer.next_hop_object.has_value();
      })) {
    const auto list = TableClient(channel).ListNextHops(
        absl::GetFlag(FLAGS_table), CallDeadline());
    // A caller that may look up need not be allowed to list.
    if (list.ok()) objects.SetAll(*list);
  }
  for (const LookupAnswer& answer : answers) {
    if (answer.next_hop_object.has_value()) {
      objects.Set(*answer.next_hop_object);
    }
  }
  return objects;
}

ExitCode LookUpFew(const std::shared_ptr<grpc::Channel>& channel,
                   const std::vector<Address>& addresses) {
  LookupOptions options = {
      .table = absl::GetFlag(FLAGS_table),
      .want_prefix = absl::GetFlag(FLAGS_prefixes),
      .want_next_hop = absl::GetFlag(FLAGS_describe),
      .require_complete = absl::GetFlag(FLAGS_await_complete),
      .deadline = CallDeadline()};
  if (const auto flow = absl::GetFlag(FLAGS_flow_hash); flow.has_value()) {
    options.flow_hashes.assign(addresses.size(), *flow);
  }
  const LookupClient client(channel);
  auto answers = client.Lookup(addresses, options);
  RetryPolicy retry({}, absl::GetFlag(FLAGS_timeout));
  while (ErrorReason(answers.status()) == "TABLE_NOT_COMPLETE" &&
         retry.Failed(answers.status(), MonotonicNow())) {
    absl::SleepFor(retry.next_attempt() - MonotonicNow());
    options.deadline = CallDeadline();
    answers = client.Lookup(addresses, options);
  }
  if (!answers.ok()) return Fail(answers.status());
  Printer printer(absl::GetFlag(FLAGS_describe)
                      ? ObjectsOf(channel, answers->answers)
                      : NextHopObjects());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const LookupAnswer& answer = answers->answers[i];
    printer.Print({.address = addresses[i],
                   .next_hop = answer.member != kNoRoute ? answer.member
                                                         : answer.next_hop,
                   .prefix = answer.prefix,
                   .generation = answers->generation});
  }
  return printer.exit_code();
}

// The server's default limit on batches that want prefix lengths.
constexpr size_t kMaxBatchWithPrefixes = 4096;

PipelineOptions OptionsFromFlags() {
  const bool prefixes = absl::GetFlag(FLAGS_prefixes);
  const size_t batch = absl::GetFlag(FLAGS_batch);
  return {.table = absl::GetFlag(FLAGS_table),
          .batch = prefixes ? std::min(batch, kMaxBatchWithPrefixes) : batch,
          .depth = absl::GetFlag(FLAGS_depth),
          .want_prefixes = prefixes,
          .require_complete = absl::GetFlag(FLAGS_await_complete),
          .flow_hash = absl::GetFlag(FLAGS_flow_hash),
          .stall_timeout = absl::GetFlag(FLAGS_timeout),
          .give_up_after = absl::GetFlag(FLAGS_timeout)};
}

// Looks up `addresses`, or the lines of the standard input, over a stream.
ExitCode LookUpMany(const std::shared_ptr<grpc::Channel>& channel,
                    const std::vector<Address>& addresses, bool lines) {
  std::unique_ptr<NextHopDirectory> directory;
  if (absl::GetFlag(FLAGS_describe)) {
    auto followed = NextHopDirectory::Follow(
        channel, {.table = absl::GetFlag(FLAGS_table)}, CallDeadline());
    if (followed.ok()) directory = *std::move(followed);
  }
  Printer printer(std::move(directory));
  ExitCode code = ExitCode::kOk;
  AddressPipeline pipeline(
      ChannelsTo(ServerTarget(), WithFlags()).value(), OptionsFromFlags(),
      [&](const AddressAnswer& answer) { printer.Print(answer); });
  const auto add = [&](const Address& address) {
    return pipeline.Add(address);
  };
  absl::Status status;
  if (lines) {
    // With a buffer of its own, the stream knows what is at hand.
    std::ios::sync_with_stdio(false);
    status = ReadAddressLines(
        std::cin,
        [&](const Address& address) { return add(Unmapped(address)); },
        [&](uint64_t line, const absl::Status& why) {
          code = FailUsage(absl::StrCat("stdin:", line, ": ", why.message()));
        },
        // The program that writes the lines may wait for their answers.
        [&] {
          absl::Status finished = pipeline.Finish();
          std::fflush(stdout);
          return finished;
        });
  }
  for (const Address& address : addresses) {
    if (status.ok()) status = add(address);
  }
  if (status.ok()) status = pipeline.Finish();
  if (!status.ok()) code = Worse(code, Fail(status));
  return Worse(code, printer.exit_code());
}

ExitCode Run(const Arguments& arguments) {
  const bool lines =
      arguments.empty() || (arguments.size() == 1 && arguments[0] == "-");
  std::vector<Address> addresses;
  std::optional<ExitCode> malformed;
  for (const std::string& argument : lines ? Arguments{} : arguments) {
    const auto address = Address::Parse(argument);
    if (address.ok()) {
      addresses.push_back(Unmapped(*address));
    } else {
      malformed = FailUsage(address.status().message());
    }
  }
  if (malformed.has_value()) return *malformed;
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  return lines || addresses.size() > kFew
             ? LookUpMany(*channel, addresses, lines)
             : LookUpFew(*channel, addresses);
}

const RegisteredCommand kLookupCommand({
    .name = "lookup",
    .arguments = "[ADDRESS... | -]",
    .summary = "show which next hop each address takes",
    .description =
        "Looks up IPv6 and IPv4 addresses and prints a line for each, in "
        "order: the address, its next hop or \"no route\", the matched "
        "prefix, the generation of the table, and what the next hop means if "
        "the table says so, separated by tabs. "
        "Without addresses, or with \"-\", reads addresses from the "
        "standard input, one a line. Reports malformed lines with their "
        "number and answers the others. An IPv4-mapped address, "
        "::ffff:192.0.2.1, is looked up, and printed, as the IPv4 address in "
        "it.\n\nA few addresses use one call; "
        "many addresses, and the standard input, use a stream of batches. "
        "What came on the standard input is answered before planbctl waits "
        "for more. If the server restarts, planbctl waits for it up to "
        "--timeout.\n\nExits with 1 if an address has no route, with 2 if "
        "one is malformed.",
    .flags = {"describe", "prefixes", "flow_hash", "await_complete", "batch",
              "depth"},
    .run = Run,
});

}  // namespace
}  // namespace planb::client
