#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests the Debian packages.
#
#   deploy/debian/test.sh [--long]
#
# Builds the packages and lets lintian judge them. Then, in an empty Debian 12
# that debootstrap makes: installs server, planbctl and feed, looks up an address
# through the installed server, and one that the feed brought, upgrades to a higher
# revision, removes and purges them. With --long, builds and runs the example of libplanb-dev there as well,
# which takes a compiler. Needs root, the Debian packages'
# registry that apt is set up for, and no running systemd. Exit code 77: skipped.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 0 1
long=${1:-}
need_root "a root file system of its own"
"$here/../packages.sh" dh:debhelper dpkg-buildpackage:dpkg-dev lintian \
  debootstrap
work=$(mktemp -d /tmp/planb_deb_test.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

"$here/build.sh" "$work/debs" > "$work/packages"
mapfile -t packages < "$work/packages"
lintian --allow-root --fail-on error,warning "${packages[@]}" \
  > "$work/lintian.log" 2>&1 || fail "lintian: $(< "$work/lintian.log")"
echo "packages: lintian has nothing to say"

root=$work/root
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" \
  "$(awk '/^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}
          /^URIs:/ {print $2; exit}' /etc/apt/sources.list \
    /etc/apt/sources.list.d/* 2> /dev/null)" > "$work/debootstrap.log" 2>&1 ||
  skip "debootstrap cannot make a root here: $(tail -n 1 "$work/debootstrap.log")"
cp -r /etc/apt/. "$root/etc/apt/"
cp /etc/resolv.conf "$root/etc/" 2> /dev/null || true
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
within() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    DEBIAN_FRONTEND=noninteractive "$@"
}
within apt-get update -qq > "$work/apt.log" 2>&1 ||
  skip "apt-get update: $(tail -n 1 "$work/apt.log")"
mkdir "$root/debs"
# install_all FILE... [PACKAGE...]
install_all() {
  local wanted=() each
  for each in "$@"; do
    if [[ -e "$each" ]]; then
      cp "$each" "$root/debs/"
      each=/debs/${each##*/}
    fi
    wanted+=("$each")
  done
  within apt-get install -y -qq --no-install-recommends "${wanted[@]}" \
    > "$work/apt.log" 2>&1 || fail "apt-get install"
}

install_all "${packages[@]:0:3}"
within getent passwd planb | grep -q ':/var/lib/planb:' || fail "no user planb"
for file in /lib/systemd/system/planb-lookup.service /etc/planb/planb.yaml \
  /usr/share/man/man1/planbctl.1.gz /usr/share/man/man1/planb_server.1.gz \
  /usr/share/bash-completion/completions/planbctl \
  /lib/systemd/system/planb-feed.service /usr/share/man/man1/planb-feed.1.gz; do
  # A minimal root leaves manuals out.
  [[ -e "$root$file" || "$file" == */man/* ]] || fail "no $file"
done

# ask EXPECTED [ANNOUNCED [GATEWAY]]: starts the installed server as its unit does, and
# looks up; with a GATEWAY also what the installed feed brings.
ask() {
  within install -d -o planb -g planb /run/planb /var/lib/planb
  within setpriv --reuid=planb --regid=planb --clear-groups \
    planb_server --config=/etc/planb/planb.yaml --metrics_address= \
    > "$work/server.log" 2>&1 &
  local server=$! code=0
  for _ in {1..600}; do
    within planbctl health --timeout=1s > /dev/null 2>&1 && break
    sleep 0.1
  done
  if [[ -n "${2:-}" ]]; then
    within planbctl announce 2001:db8::/32 "$2" > /dev/null || code=$?
  fi
  within planbctl lookup 2001:db8::1 > "$work/answer" || code=$?
  if [[ -n "${example:-}" ]]; then
    within "$example" unix:///run/planb/planb.sock 2001:db8::1 |
      grep -q 'next hop 7 by the server' || code=$?
  fi
  if [[ -n "${3:-}" ]]; then
    within setpriv --reuid=planb-feed --regid=planb-feed --groups="$(within getent \
      group planb | cut -d: -f3)" planb-feed --config=/tmp/feed.yaml 2> "$work/feed.log" &
    local feed=$!
    for _ in {1..600}; do
      grep -q 'is visible' "$work/feed.log" && break
      sleep 0.1
    done
    within planbctl lookup 2001:db8:f::1 > "$work/fed" || code=$?
    within planbctl nexthop list | grep -q "$3" || code=1
    pkill -TERM -P "$feed" 2> /dev/null || kill -TERM "$feed"
    wait "$feed" || code=$?
  fi
  pkill -TERM -P "$server" planb_server 2> /dev/null || kill -TERM "$server"
  wait "$server" || true
  ((code == 0)) && grep -q "next hop $1" "$work/answer" ||
    fail "the installed server answered $(< "$work/answer")"
}
ask 7 7
# The example is sound. A feed of a file: its user may write by the group's socket.
within planb-feed --check > "$work/feed.log" || fail "the example of planb-feed"
[[ ! -e "$root/etc/systemd/system/multi-user.target.wants/planb-feed.service" ]] ||
  fail "planb-feed takes a table without being asked"
printf '2001:db8::/32 7\n2001:db8:f::/48 via fe80::9 dev eth0\n' > "$root/tmp/routes.txt"
echo 'sources: [{name: file, kind: file, options: {path: /tmp/routes.txt}}]' \
  > "$root/tmp/feed.yaml"
ask 7 '' fe80::9
if [[ -n "$long" ]]; then
  install_all "${packages[3]}" g++ cmake make pkg-config
  within cmake -S /usr/share/doc/libplanb-dev/examples -B /tmp/build \
    > "$work/cmake.log" 2>&1 || fail "cmake"
  within cmake --build /tmp/build > "$work/cmake.log" 2>&1 ||
    fail "the example does not build by cmake"
  [[ "$(within /tmp/build/planb_example)" == "next hop 8 by the engine" ]] ||
    fail "the example answers otherwise"
  # shellcheck disable=SC2016 # expanded in there
  within sh -c 'cd /usr/share/doc/libplanb-dev/examples && g++ -std=c++20 \
    -o /tmp/example example.cc $(pkg-config --cflags --libs planb)' \
    > "$work/cmake.log" 2>&1 || fail "the example does not build by pkg-config"
  example=/tmp/example
  ask 7
  within apt-get purge -y -qq libplanb-dev > "$work/apt.log" 2>&1
  within rm -r /tmp/build /tmp/example
  echo "packages: the example of libplanb-dev builds by cmake and by pkg-config"
fi
example=
echo "packages: installed in an empty Debian 12; the server answers"

echo '# changed by the administrator' >> "$root/etc/planb/planb.yaml"
PLANB_DEB_REVISION=2 "$here/build.sh" "$work/newer" > "$work/packages"
mapfile -t newer < "$work/packages"
install_all "${newer[@]:0:3}"
within dpkg-query --show --showformat='${Version}' planb-server | grep -q -- -2 ||
  fail "not upgraded"
grep -q 'by the administrator' "$root/etc/planb/planb.yaml" ||
  fail "the upgrade replaced the configuration"
ask 7
echo "packages: upgraded; configuration and table are what they were"

within apt-get remove -y -qq planb-server planbctl planb-feed > "$work/apt.log" 2>&1 ||
  fail "apt-get remove"
[[ -e "$root/var/lib/planb/planb.db" && -e "$root/etc/planb/planb.yaml" &&
  ! -e "$root/usr/bin/planb_server" ]] || fail "what is left after a removal"
within apt-get purge -y -qq planb-server planbctl planb-feed > "$work/apt.log" 2>&1 ||
  fail "apt-get purge"
left=$(find "$root" -xdev \( -path "$root/debs" -o -path "$root/proc" \
  -o -path "$root/var/log" -o -path "$root/run" \) -prune -o \
  -iname '*planb*' -print)
[[ -z "$left" ]] || fail "left after a purge: $left"
echo "packages: removed, then purged without a trace"
echo "PASS: the Debian packages"
