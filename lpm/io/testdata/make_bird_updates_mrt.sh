#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Makes bird_updates.mrt: BGP4MP records written by BIRD (Debian's bird2 2.0.12).
#
# Two daemons on the loopback speak iBGP over IPv6. One announces routes of both
# families, the other dumps what it hears. Then the routes change: some are
# withdrawn, one gets another next hop. Messages and state changes are recorded,
# those that the collector sends included (BGP4MP_MESSAGE_AS4_LOCAL).
#
# Usage: make_bird_updates_mrt.sh OUTPUT
set -eu
output=$1
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$dir"' EXIT

cat > "$dir/1.conf" <<EOF
router id 192.0.2.1;
log "$dir/1.log" all;
mrtdump "$dir/updates.mrt";
mrtdump protocols { states, messages };
protocol device { }
protocol bgp b {
  strict bind yes;
  local ::1 port 17911 as 64500;
  neighbor ::1 port 17912 as 64500;
  ipv4 { import all; export none; extended next hop on; };
  ipv6 { import all; export none; };
}
EOF
cat > "$dir/2.conf" <<EOF
router id 192.0.2.2;
log "$dir/2.log" all;
protocol device { }
protocol static {
  ipv4;
  include "$dir/ipv4";
}
protocol static {
  ipv6;
  include "$dir/ipv6";
}
protocol bgp a {
  strict bind yes;
  local ::1 port 17912 as 64500;
  neighbor ::1 port 17911 as 64500;
  ipv4 { import none; export all; next hop keep; extended next hop on; };
  ipv6 { import none; export all; next hop keep; };
}
EOF

# routes FAMILY [PREFIX NEXTHOP]...: all of the family from now on.
routes() {
  file=$dir/$1
  shift
  : > "$file"
  while [ $# -gt 0 ]; do
    echo "route $1 blackhole { bgp_next_hop = $2; };" >> "$file"
    shift 2
  done
}

# until_count N: until the collector has as many routes.
until_count() {
  tries=0
  until birdc -s "$dir/1.ctl" show route all 2>/dev/null |
      grep -c BGP.local | grep -qx "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { cat "$dir"/*.log >&2; exit 1; }
    sleep 1
  done
}

routes ipv4 10.0.0.0/8 198.51.100.1 192.0.2.0/25 198.51.100.1 \
    203.0.113.7/32 2001:db8:ffff::4
routes ipv6 ::/0 2001:db8:ffff::1 2001:db8::/32 2001:db8:ffff::1 \
    2001:db8:1:2::/63 2001:db8:ffff::2
for i in 1 2; do
  bird -f -c "$dir/$i.conf" -s "$dir/$i.ctl" -P "$dir/$i.pid" 2>&1 &
  pids="$pids $!"
done
until_count 6
routes ipv4 10.0.0.0/8 198.51.100.2
routes ipv6 ::/0 2001:db8:ffff::1 2001:db8:1:2::7/128 2001:db8:ffff::2
birdc -s "$dir/2.ctl" configure
until_count 3
sleep 1
cp "$dir/updates.mrt" "$output"
