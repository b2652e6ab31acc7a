#include "lpm/testing/world_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace planb {
namespace {

// Wide enough for any kernel's widest part and for some of its rest.
constexpr size_t kBatch = 150;

}  // namespace

WorldTable::WorldTable(const SmallWorld& world, std::vector<Route> background)
    : family_(world.family),
      prefixes_(PrefixesOf(world)),
      background_(std::move(background)),
      state_(prefixes_.size(), kNoRoute),
      old_(/*most=*/80, /*seed=*/1) {
  std::erase_if(background_, [this](const Route& route) {
    return std::count(prefixes_.begin(), prefixes_.end(), route.prefix) > 0;
  });
  forms_ = {WholeForm(family_)};
  if (family_ == Family::kIpv6) forms_.push_back(Form::kIpv6Upper);
  for (const Form form : forms_) {
    probes_.push_back(
        std::make_shared<PackedProbes>(form, ProbesOf(world), kBatch));
  }
  Restart();
}

WorldTable::~WorldTable() {
  while (!old_.empty()) EXPECT_EQ(old_.DropOne(), "") << "of an old version";
}

void WorldTable::Restart() {
  std::fill(state_.begin(), state_.end(), kNoRoute);
  table_ = std::make_unique<LiveTable>(family_, background_);
  Check({});
}

void WorldTable::Go(const State& next) {
  std::vector<Change> changes;
  for (size_t i = 0; i < prefixes_.size(); ++i) {
    if (next[i] != state_[i]) changes.push_back({prefixes_[i], next[i]});
  }
  state_ = next;
  table_->Apply(changes);
  Check(changes);
}

void WorldTable::Set(size_t i, NextHopId next_hop) {
  const Change change = {prefixes_[i], next_hop};
  state_[i] = next_hop;
  table_->Apply({&change, 1});
  Check({&change, 1});
}

void WorldTable::Check(absl::Span<const Change> changes) {
  std::vector<Route> routes = background_;
  for (size_t i = 0; i < prefixes_.size(); ++i) {
    if (state_[i] != kNoRoute) routes.push_back({prefixes_[i], state_[i]});
  }
  for (size_t i = 0; i < forms_.size(); ++i) {
    std::vector<NextHopId> expected =
        RightAnswersAs(forms_[i], routes, probes_[i]->addresses());
    ASSERT_EQ(probes_[i]->Differences(*table_->fib(), expected), "")
        << "after " << ChangesText(changes) << "; the routes are "
        << ChangesText(routes);
    ASSERT_EQ(old_.Keep(table_->fib(), probes_[i], std::move(expected)), "")
        << "of an old version";
  }
}

bool NextState(WorldTable::State& state, NextHopId values) {
  for (NextHopId& digit : state) {
    if (++digit < values) return true;
    digit = 0;
  }
  return false;
}

}  // namespace planb
