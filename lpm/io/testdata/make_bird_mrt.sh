#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Makes bird.mrt: a TABLE_DUMP_V2 file written by BIRD (Debian's bird2 2.0.12).
#
# Three daemons on the loopback speak iBGP, so that paths keep their next hops
# and AS paths: two announce routes, the third dumps its tables. One session
# runs over IPv6. BIRD writes MP_REACH_NLRI abbreviated, as RFC 6396 wants it.
# Its two tables become two dumps, one after the other in the same file, each
# with peers of its own.
#
# Usage: make_bird_mrt.sh OUTPUT
set -eu
output=$1
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$dir"' EXIT

cat > "$dir/1.conf" <<EOF
router id 192.0.2.1;
log "$dir/1.log" all;
protocol device { }
template bgp peer {
  strict bind yes;
  local 127.0.0.1 port 17900 as 64500;
  ipv4 { import all; export none; };
  ipv6 { import all; export none; };
}
protocol bgp b from peer { neighbor 127.0.0.2 port 17900 as 64500; }
protocol bgp c from peer {
  local ::1 port 17900 as 64500;
  neighbor ::1 port 17903 as 64500;
}
EOF

# speaker NUMBER LOCAL NEIGHBOR, then the routes of either family on files.
speaker() {
  cat <<EOF
router id 192.0.2.$1;
log "$dir/$1.log" all;
protocol device { }
protocol static {
  ipv4;
include "$dir/$1.ipv4";
}
protocol static {
  ipv6;
include "$dir/$1.ipv6";
}
protocol bgp a {
  strict bind yes;
  local $2 as 64500;
  neighbor $3 port 17900 as 64500;
  ipv4 { import none; export all; next hop keep; };
  ipv6 { import none; export all; next hop keep; };
}
EOF
}
speaker 2 "127.0.0.2 port 17900" 127.0.0.1 > "$dir/2.conf"
speaker 3 "::1 port 17903" ::1 > "$dir/3.conf"

# add NUMBER FAMILY PREFIX NEXTHOP ORIGIN AS...: the path is prepended to, so
# the AS numbers come last first.
add() {
  file="$dir/$1.$2"
  {
    echo "route $3 blackhole {"
    echo "  bgp_next_hop = $4; bgp_origin = ORIGIN_$5;"
    shift 5
    for as in "$@"; do echo "  bgp_path.prepend($as);"; done
    echo "};"
  } >> "$file"
}
add 2 ipv4 0.0.0.0/0 198.51.100.1 IGP 64512 64511
add 2 ipv4 192.0.2.0/24 198.51.100.1 IGP 64513 64512 64511
add 3 ipv4 192.0.2.0/24 198.51.100.2 IGP 64513 64521         # shorter: wins
add 2 ipv4 203.0.113.128/25 198.51.100.1 INCOMPLETE 64511
add 3 ipv4 203.0.113.128/25 198.51.100.2 EGP 64521           # origin: wins
add 3 ipv4 203.0.113.7/32 198.51.100.3 IGP 4200000001
add 2 ipv6 ::/0 2001:db8:ffff::1 IGP 64512 64511
add 2 ipv6 2001:db8::/32 2001:db8:ffff::1 IGP 64511          # shorter: wins
add 3 ipv6 2001:db8::/32 2001:db8:ffff::2 IGP 64522 64521
add 3 ipv6 2001:db8:1::/48 2001:db8:ffff::2 IGP 64521
add 2 ipv6 2001:db8:1:2::/63 2001:db8:ffff::3 IGP 64511
add 3 ipv6 2001:db8:1:2::7/128 2001:db8:ffff::2 IGP 64521

for i in 1 2 3; do
  bird -f -c "$dir/$i.conf" -s "$dir/$i.ctl" -P "$dir/$i.pid" 2>&1 &
  pids="$pids $!"
done
tries=0
until birdc -s "$dir/1.ctl" show route all 2>/dev/null | grep -c BGP.local |
    grep -qx 12; do
  tries=$((tries + 1))
  [ $tries -lt 60 ] || { cat "$dir"/*.log >&2; exit 1; }
  sleep 1
done
for family in 4 6; do
  birdc -s "$dir/1.ctl" \
      "mrt dump table \"master$family\" to \"$dir/table$family.mrt\""
done
sleep 2
cat "$dir/table4.mrt" "$dir/table6.mrt" > "$output"
