#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Measures planb-feed with a real server and a real far side of each kind of source: the
# time from a session's begin until all routes are visible, processor time of the feed, the
# server and a BGP peer until then, and the most memory of the feed and the server; then, with
# 5,000 random changes a second, from the change of a route until a lookup tells it.
#
#   feed/measure.sh TABLE...     # files of "PREFIX NUMBER" lines
#
# In the environment: PLANB_SERVER_BINARY and PLANB_PLANBCTL_BINARY (default: bazel-bin's),
# PLANB_FEED_KINDS (default: all; kernel, a network namespace, needs root; the peer of bgp is a
# second GoBGP, that of bgp:wire has its messages ready), PLANB_FEED_SECONDS of changes (default
# 60; 0: none),
# PLANB_FEED_ATTRIBUTES of bgp and bmp (default: gateway), PLANB_FEED_LOOKUPS, seconds in which
# planbctl looks up addresses of the first table in batches of 4,096 (default: not at all),
# PLANB_FEED_PROFILE, a file for a profile of the feed. The load of the machine is printed
# beside each line, and belongs to what it says.
set -euo pipefail
if [[ $# == 0 ]]; then
  sed -n '4,20s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
PLANB_FEED_TABLES=$(realpath "$@" | tr '\n' ' ')
cd "$(dirname "$0")/.."
GO=$(deploy/go_tool.sh go)
export PLANB_FEED_TABLES GOFLAGS=-mod=readonly GOTOOLCHAIN=local
export PLANB_SERVER_BINARY=${PLANB_SERVER_BINARY:-$PWD/bazel-bin/server/planb_server}
export PLANB_PLANBCTL_BINARY=${PLANB_PLANBCTL_BINARY:-$PWD/bazel-bin/client/planbctl/planbctl}
export PLANB_FEED_KINDS=${PLANB_FEED_KINDS:-file kernel fpm bgp bgp:wire bmp} PLANB_FEED_SECONDS=${PLANB_FEED_SECONDS:-60}
client/go/generate.sh
# Of a package that is named, go shows only that its tests passed.
"$GO" -C feed/cmd/planb-feed test -count=1 -timeout=60m -run='^TestMeasure$'
