#include "lpm/testing/live_table.h"

#include "absl/strings/str_cat.h"

namespace planb {

std::string ChangesText(absl::Span<const Change> changes) {
  std::string text;
  for (const Change& change : changes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ");
    if (change.next_hop == kNoRoute) {
      absl::StrAppend(&text, "withdraw ", change.prefix.ToString());
    } else {
      absl::StrAppend(&text, change.prefix.ToString(), " -> ", change.next_hop);
    }
  }
  return text;
}

LiveTable::LiveTable(Family family, absl::Span<const Route> routes)
    : routes_(family, routes), compiler_(family) {
  for (const Route& route : routes) model_[route.prefix] = route.next_hop;
  fib_ = compiler_.Compile(routes_).value();
}

std::shared_ptr<const Fib> LiveTable::Apply(
    absl::Span<const Change> changes, absl::Span<const Prefix> also_named) {
  std::vector<Prefix> named;
  named.reserve(changes.size() + also_named.size());
  for (const Change& change : changes) {
    named.push_back(change.prefix);
    if (change.next_hop == kNoRoute) {
      routes_.Withdraw(change.prefix);
      model_.erase(change.prefix);
    } else {
      routes_.Announce(change.prefix, change.next_hop);
      model_[change.prefix] = change.next_hop;
    }
  }
  named.insert(named.end(), also_named.begin(), also_named.end());
  fib_ = compiler_.Update(routes_, named).value();
  return fib_;
}

std::shared_ptr<const Fib> LiveTable::Recompile() {
  fib_ = compiler_.Compile(routes_).value();
  return fib_;
}

std::vector<Route> LiveTable::ModelRoutes() const {
  std::vector<Route> routes;
  routes.reserve(model_.size());
  for (const auto& [prefix, next_hop] : model_) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

}  // namespace planb
