#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests the systemd units without a running systemd.
#
#   deploy/systemd/systemd_test.sh BIN
#
# BIN holds planb_server, planbctl and planb-feed. systemd's own tools judge the units
# (and have to refuse spoilt ones); then the units' command lines run as
# unprivileged users without capabilities, with the units' limits: the server has to
# serve, drain, and find the table again, and the feed to follow it. As root on Debian it installs systemd's
# tools if they are missing; exit code 77 (skipped) without them or without root.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
readonly UNIT=planb-lookup.service FEED=planb-feed.service
readonly USER_ID=61532 STRANGER=61533 FEED_ID=61534
# What systemd calls the unit's exposure, of 10.0; in tenths. 1.5 when written.
readonly MAX_EXPOSURE=20
arguments $# 1

need_root "becoming an unprivileged user"
"$here/../packages.sh" systemd-analyze:systemd setpriv:util-linux curl

# Short, for a socket lies in it; open to the user, with any umask.
work=$(mktemp -d /tmp/planb_unit.XXXXXX)
server= feed=
cleanup() {
  for process in $server $feed; do
    kill -KILL "$process" 2> /dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "FAIL: $*" >&2
  tail -n 20 "$work/log" "$work/feed.log" >&2 2> /dev/null || true
  exit 1
}

chmod 755 "$work"
install -d -m 755 "$work/bin"
install -m 755 "$1/planb_server" "$1/planbctl" "$1/planb-feed" "$work/bin/"
# The units and their configurations, but for where things are on this machine.
for unit in $UNIT $FEED; do
  sed -e "s|/usr/bin/planb|$work/bin/planb|g" "$here/$unit" > "$work/$unit"
done
sed -e "s|/run/planb|$work/run|; s|127.0.0.1:[0-9]*\"|127.0.0.1:0\"|" "$here/feed.yaml" \
  > "$work/feed.yaml"
sed -e "s|/run/planb|$work/run|g; s|/var/lib/planb|$work/state|g" \
  -e 's/^\(metrics_address: "127.0.0.1\):[0-9]*/\1:0/' "$here/planb.yaml" \
  > "$work/planb.yaml"

verify() {
  systemd-analyze verify --man=no --recursive-errors=no "$1" \
    > "$work/verify" 2>&1 && [[ ! -s "$work/verify" ]]
}
mkdir "$work/probe" "$work/spoilt"
printf '[Service]\nExecStart=/bin/true\n' > "$work/probe/probe.service"
if verify "$work/probe/probe.service"; then
  for unit in $UNIT $FEED; do
    verify "$work/$unit" || fail "verify: $(cat "$work/verify")"
    for spoil in 's/^ProtectSystem=.*/ProtectSystem=somewhat/' \
      's/^NoNewPrivileges/NoMorePrivileges/' 's|/bin/planb[_-][a-z]*|/bin/none|'; do
      sed "$spoil" "$work/$unit" > "$work/spoilt/$unit"
      if verify "$work/spoilt/$unit"; then
        fail "systemd-analyze accepts what $spoil spoilt"
      fi
    done
  done
  echo "unit: systemd-analyze verify has nothing to say, but to spoilt ones"
else
  echo "unit: not verified, systemd-analyze does not work here:" \
    "$(tail -n 1 "$work/verify")"
fi

exposed() {
  systemd-analyze security --offline=true --no-pager \
    --threshold="$MAX_EXPOSURE" "$1" > "$work/security" 2>&1
}
if exposed "$work/$UNIT"; then
  sed '/^CapabilityBoundingSet/d; /^SystemCallFilter/d; /^Protect/d' \
    "$work/$UNIT" > "$work/spoilt/$UNIT"
  if exposed "$work/spoilt/$UNIT"; then
    fail "an open unit passes for a hardened one"
  fi
  for unit in $UNIT $FEED; do
    exposed "$work/$unit" || fail "$(tail -n 1 "$work/security")"
    grep -o 'exposure level for [^ ]*: [0-9.]* [A-Z]*' "$work/security" |
      sed 's/^/unit: /'
  done
elif grep -q 'exposure level' "$work/security"; then
  fail "$(tail -n 1 "$work/security")"
else
  echo "unit: exposure not judged: $(tail -n 1 "$work/security")"
fi

mkdir "$work/etc"
systemd-sysusers --root="$work" "$here/planb.sysusers.conf" \
  "$here/planb-feed.sysusers.conf" > "$work/log" 2>&1 || fail "systemd-sysusers"
grep -q '^planb-feed:' "$work/etc/passwd" || fail "no user planb-feed"
grep -q '^planb:.*:/var/lib/planb:' "$work/etc/passwd" || fail "no user planb"
grep -q '^planb:' "$work/etc/group" || fail "no group planb"
echo "unit: its user is what systemd-sysusers makes"

# setting NAME [UNIT]: its value, the lines that continue it joined. What $PLANB_FLAGS
# adds is nothing here.
# shellcheck disable=SC2016 # the unit's variable, not the shell's
setting() {
  sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$work/${2:-$UNIT}" |
    sed -n "s/^$1=//p" | sed -e 's/\$PLANB_FLAGS//' \
    -e "s|/etc/planb/|$work/|g"
}
# The server has to refuse what the unit would kill it for.
PYTHONPATH=$here/../kubernetes python3 -B - "$(setting MemoryMax)" "$here/planb.yaml" \
  << 'PYTHON' || fail "MemoryMax= is below what the flags allow"
import sys
import sizing
maximum, config = sys.argv[1:]
lines = [line for line in open(config) if line.strip() and line[0] != "#"]
flags = {name: value.strip() for name, value in (l.split(":", 1) for l in lines)}
units = {"M": 1 << 20, "G": 1 << 30}
table = sizing.size_of_flag(flags["max_table_memory_bytes"])
quota = sizing.size_of_flag(flags["memory_quota_bytes"])
may = int(maximum[:-1]) * units[maximum[-1]]
assert sizing.limit_bytes(table, quota) <= may
assert sizing.request_bytes(int(flags["max_routes"]), quota) <= may
PYTHON
echo "unit: MemoryMax= is more than the flags let the server take"

install -d -o $USER_ID -g $USER_ID -m "$(setting RuntimeDirectoryMode)" \
  "$work/run"
install -d -o $USER_ID -g $USER_ID -m "$(setting StateDirectoryMode)" \
  "$work/state"
files=$(setting LimitNOFILE)
hard=$(ulimit -Hn)
if [[ "$hard" != unlimited ]] && ((hard < files)); then
  files=$hard
fi

# become UID GROUPS COMMAND...: turns into what a unit's process begins as, but
# for seccomp and namespaces.
become() {
  umask "$(setting UMask)"
  ulimit -n "$files"
  exec env -i PATH=/usr/bin:/bin setpriv --reuid="$1" --regid="$1" "$2" \
    --no-new-privs --inh-caps=-all --bounding-set=-all "${@:3}"
}
(become $USER_ID --clear-groups true) 2> "$work/log" ||
  skip "cannot drop privileges here: $(tail -n 1 "$work/log")"

start() {
  local command=()
  # The unit's quoting is the shell's.
  eval "command=($(setting ExecStart))"
  : > "$work/log"
  become $USER_ID --clear-groups "${command[@]}" 2> "$work/log" &
  server=$!
  for _ in {1..600}; do
    ask $USER_ID --clear-groups health && return
    sleep 0.1
  done
  fail "no server that serves"
}
stop() {
  local code=0
  kill -TERM "$server"
  wait "$server" || code=$?
  server=
  ((code == 0)) || fail "exit code $code after SIGTERM"
}
ask() {
  (become "$1" "$2" "$work/bin/planbctl" \
    --server="unix://$work/run/planb.sock" "${@:3}") > "$work/answer" 2>&1
}

start
ask $USER_ID --clear-groups announce 2001:db8::/32 7 || fail "announce"
# Another user of the group may ask, a stranger may not.
ask $STRANGER --groups=$USER_ID lookup 2001:db8::1 ||
  fail "a caller in the group: $(cat "$work/answer")"
grep -q 'next hop 7' "$work/answer" || fail "$(cat "$work/answer")"
if ask $STRANGER --clear-groups lookup 2001:db8::1; then
  fail "a stranger got an answer"
fi
for line in $'CapBnd:\t0000000000000000' $'NoNewPrivs:\t1' \
  $'Uid:\t'"$USER_ID"; do
  grep -q "^$line" "/proc/$server/status" || fail "runs without '$line'"
done
stop
start
ask $STRANGER --groups=$USER_ID lookup 2001:db8::1 || fail "after a restart"
grep -q 'next hop 7' "$work/answer" || fail "the table did not survive"
# As the feed's user, which is in the server's group. Its example waits for FRR then.
eval "command=($(setting ExecStart $FEED))"
become $FEED_ID --groups=$USER_ID "${command[@]}" 2> "$work/feed.log" &
feed=$!
for ((i = 0; ; ++i)); do
  pages=$(sed -n 's/.*"pages are served","address":"\([^"]*\)".*/\1/p' "$work/feed.log")
  [[ -z "$pages" || "$(curl --silent "$pages/readyz")" != *"told all"* ]] || break
  ((i < 600)) || fail "the feed does not follow the server"
  sleep 0.1
done
kill -TERM "$feed"
wait "$feed" || fail "the feed: exit code $? after SIGTERM"
feed=
echo "unit: the feed follows the server as uid $FEED_ID, and waits for FRR"
stop
echo "unit: its commands serve its group as uid $USER_ID, drain, and come back"
echo "PASS: the systemd units"
