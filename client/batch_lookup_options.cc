// A target is checked once, so that making a channel to it cannot fail later.

#include "client/batch_lookup_options.h"

#include <string>

#include "client/channel.h"

namespace planb::client {

absl::StatusOr<OpenChannel> ChannelsTo(absl::string_view target) {
  const ChannelOptions options = {.own_connection = true};
  if (auto channel = MakeChannel(target, options); !channel.ok()) {
    return channel.status();
  }
  return [target = std::string(target), options] {
    return MakeChannel(target, options).value();
  };
}

}  // namespace planb::client
