#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Makes gobgp.mrt: a TABLE_DUMP_V2 file written by GoBGP (Debian's gobgpd 3.10).
#
# Three daemons on the loopback speak iBGP, so that paths keep their next hops
# and AS paths: two announce routes, the third dumps its table. GoBGP writes
# MP_REACH_NLRI in full, and its own route in a record with additional paths
# (RFC 8050), unlike the real collectors. Takes 70 seconds: gobgpd dumps once a
# minute at most.
#
# Usage: make_gobgp_mrt.sh OUTPUT
set -eu
output=$1
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$dir"' EXIT

# daemon LAST_OCTET: global settings of the daemon at 127.0.0.LAST_OCTET.
daemon() {
  cat <<EOF
[global.config]
  as = 64500
  router-id = "192.0.2.$1"
  port = 17900
  local-address-list = ["127.0.0.$1"]
EOF
}

# neighbor LAST_OCTET LOCAL_LAST_OCTET PASSIVE
neighbor() {
  cat <<EOF
[[neighbors]]
  [neighbors.config]
    neighbor-address = "127.0.0.$1"
    peer-as = 64500
  [neighbors.transport.config]
    local-address = "127.0.0.$2"
    remote-port = 17900
    passive-mode = $3
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-unicast"
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-unicast"
EOF
}

{
  daemon 1
  neighbor 2 1 true
  neighbor 3 1 true
  cat <<EOF
[[mrt-dump]]
  [mrt-dump.config]
    dump-type = "table"
    file-name = "$dir/table.mrt"
    dump-interval = 60
EOF
} > "$dir/1.toml"
for i in 2 3; do
  { daemon $i; neighbor 1 $i false; } > "$dir/$i.toml"
done
for i in 1 2 3; do
  gobgpd -f "$dir/$i.toml" --api-hosts "127.0.0.1:5179$i" > "$dir/$i.log" 2>&1 &
  pids="$pids $!"
done
sleep 2

# add DAEMON FAMILY PREFIX NEXTHOP ORIGIN ASPATH
add() {
  gobgp -p "5179$1" global rib add -a "$2" "$3" nexthop "$4" origin "$5" \
      aspath "$6"
}
add 2 ipv4 0.0.0.0/0 198.51.100.1 igp "64511 64512"
add 2 ipv4 192.0.2.0/24 198.51.100.1 igp "64511 64512 64513"
add 3 ipv4 192.0.2.0/24 198.51.100.2 igp "64521 64513"      # shorter: wins
add 2 ipv4 203.0.113.128/25 198.51.100.1 incomplete "64511"
add 3 ipv4 203.0.113.128/25 198.51.100.2 egp "64521"        # origin: wins
add 3 ipv4 203.0.113.7/32 198.51.100.3 igp "64521"
add 2 ipv6 ::/0 2001:db8:ffff::1 igp "64511 64512"
add 2 ipv6 2001:db8::/32 2001:db8:ffff::1 igp "64511"       # shorter: wins
add 3 ipv6 2001:db8::/32 2001:db8:ffff::2 igp "64521 64522"
add 3 ipv6 2001:db8:1::/48 2001:db8:ffff::2 igp "64521"
add 2 ipv6 2001:db8:1:2::/63 2001:db8:ffff::3 igp "64511"
add 3 ipv6 2001:db8:1:2::7/128 2001:db8:ffff::2 igp "64521"
# The dumper's own route: GoBGP gives it the index of a peer that is not there.
add 1 ipv6 2001:db8:2::/48 2001:db8:ffff::4 igp "64531"

tries=0
until [ -s "$dir/table.mrt" ] && [ $tries -ge 65 ]; do
  tries=$((tries + 1))
  [ $tries -lt 80 ] || { cat "$dir"/*.log >&2; exit 1; }
  sleep 1
done
cp "$dir/table.mrt" "$output"
