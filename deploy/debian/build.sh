#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds the Debian packages of the server and of planbctl.
#
#   deploy/debian/build.sh FOLDER [BIN]
#
# BIN holds planb_server and planbctl; without it they are built, optimized.
# PLANB_DEB_REVISION is the Debian revision, 1 by default. Prints the paths of
# the packages. As root on Debian it installs debhelper if that is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1 2
folder=$(mkdir -p "$1" && cd "$1" && pwd)
bin=${2:+$(realpath "$2")}
"$here/../packages.sh" dh:debhelper dpkg-buildpackage:dpkg-dev
cd "$here/../.."
version=$(< VERSION)-${PLANB_DEB_REVISION:-1}
if [[ -z "$bin" ]]; then
  bazel build --noshow_progress --config=opt //server:planb_server \
    //client:planbctl >&2
  bin=$(mktemp -d)
  cp -L bazel-bin/server/planb_server bazel-bin/client/planbctl/planbctl "$bin"
fi

work=$(mktemp -d /tmp/planb_deb.XXXXXX)
trap 'rm -rf "$work"' EXIT
tree=$work/planb-lookup
mkdir -p "$tree/built/completions"
cp -r deploy/debian "$tree/debian"
rm "$tree"/debian/*.sh
cp "$bin/planb_server" "$bin/planbctl" deploy/systemd/planb.yaml "$tree/built"
cp deploy/systemd/planb-lookup.service \
  "$tree/debian/planb-server.planb-lookup.service"
cp deploy/systemd/planb.sysusers.conf "$tree/debian/planb-server.sysusers"
# Debian has no bug that asks for these packages.
for package in planb-server planbctl; do
  echo "$package: initial-upload-closes-no-bugs *" \
    > "$tree/debian/$package.lintian-overrides"
done
for shell in bash:planbctl zsh:_planbctl fish:planbctl.fish; do
  "$bin/planbctl" completion "${shell%:*}" \
    > "$tree/built/completions/${shell#*:}"
done
"$bin/planbctl" man > "$tree/built/planbctl.1"
# The text of --help as it is.
{
  echo ".TH PLANB_SERVER 1 \"\" \"planb_server ${version%-*}\" \"User Commands\""
  echo '.SH NAME'
  echo 'planb_server \- longest-prefix-match lookups over gRPC'
  echo '.SH DESCRIPTION'
  echo '.nf'
  "$bin/planb_server" --help | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
  echo '.fi'
} > "$tree/built/planb_server.1"
cat > "$tree/debian/changelog" << CHANGES
planb-lookup ($version) bookworm; urgency=medium

  * The changes of each version are in CHANGELOG.md of the source.

 -- PlanB Lookup maintainers <maintainers@planb.invalid>  $(date -R -r VERSION)
CHANGES
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps) \
  > "$work/log" 2>&1 || fail "dpkg-buildpackage: $(tail -n 20 "$work/log")"
mv "$work"/*.deb "$folder"
for package in planb-server planbctl; do
  echo "$folder/${package}_${version}_$(dpkg --print-architecture).deb"
done
