#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds the Debian packages: the server, planbctl, planb-feed, and what C++ programs need.
#
#   deploy/debian/build.sh FOLDER
#
# Programs and libraries are optimized, or as PLANB_DEB_CONFIG says for Bazel.
# PLANB_DEB_REVISION is the Debian revision, 1 by default. Prints the paths of
# the packages. As root on Debian it installs debhelper if that is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1
folder=$(mkdir -p "$1" && cd "$1" && pwd)
"$here/../packages.sh" dh:debhelper dpkg-buildpackage:dpkg-dev
cd "$here/../.."
version=$(< VERSION)-${PLANB_DEB_REVISION:-1}
# What libplanb-dev has.
readonly LIBRARIES=(//client //follow //proto/wire //proto:planb_v1 //lpm/table //lpm/fib
  //lpm/routes //lpm/kernels //lpm //base //base:openssl //third_party/googleapis:rpc)

work=$(mktemp -d /tmp/planb_deb.XXXXXX)
trap 'rm -rf "$work"' EXIT
tree=$work/planb-lookup
bin=$work/bin
mkdir -p "$tree/built/completions" "$bin"
# Objects of libraries are for any program, also one that is loaded anywhere.
read -ra config <<< "${PLANB_DEB_CONFIG---config=opt} --force_pic"
bazel build --noshow_progress "${config[@]}" //server:planb_server \
  //client:planbctl "${LIBRARIES[@]}" >&2
# The folder of this configuration: bazel-bin is that of whatever was built last.
built=$(bazel info --noshow_progress "${config[@]}" bazel-bin 2> /dev/null)
cp -L "$built/server/planb_server" "$built/client/planbctl/planbctl" "$bin"
feed/build.sh "$bin" "$(dpkg --print-architecture)" >&2

# One archive of all, and their headers, at the paths by which they are included.
{
  echo "create $work/libplanb.a"
  for library in "${LIBRARIES[@]}"; do
    path=${library#//}
    name=${path##*[:/]}
    ls "$built/${path%:*}/lib$name.a" 2> /dev/null | sed 's/^/addlib /'
  done
  echo save
} | ar -M
all="set(${LIBRARIES[*]})"
bazel query --noshow_progress "labels(hdrs, $all) + labels(srcs, $all)" \
  2> /dev/null | grep '\.h$' |
  while IFS=: read -r folder file; do
    folder=${folder#//}
    case $folder in
      proto | third_party/googleapis) place=$file ;; # their own roots
      *) place=$folder/$file ;;
    esac
    from=$folder/$file
    [[ -e "$from" ]] || from=$built/$from
    install -D -m 644 "$from" "$tree/built/include/planb/$place"
  done
mv "$work/libplanb.a" "$tree/built/"
sed "s/@VERSION@/${version%-*}/" deploy/debian/planb.pc.in > "$tree/built/planb.pc"
sed "s/@VERSION@/${version%-*}/" deploy/debian/planbConfigVersion.cmake.in \
  > "$tree/built/planbConfigVersion.cmake"
cp -r deploy/debian "$tree/debian"
rm "$tree"/debian/*.sh "$tree"/debian/*.in
cp "$bin"/* deploy/systemd/{planb,feed}.yaml "$tree/built"
cp deploy/systemd/planb-lookup.service \
  "$tree/debian/planb-server.planb-lookup.service"
cp deploy/systemd/planb.sysusers.conf "$tree/debian/planb-server.sysusers"
cp deploy/systemd/planb-feed.service "$tree/debian"
cp deploy/systemd/planb-feed.sysusers.conf "$tree/debian/planb-feed.sysusers"
# Debian has no bug that asks for these packages.
for package in planb-server planbctl planb-feed libplanb-dev; do
  echo "$package: initial-upload-closes-no-bugs *" \
    > "$tree/debian/$package.lintian-overrides"
done
# As programs in Go are.
echo 'planb-feed: statically-linked-binary *' >> "$tree/debian/planb-feed.lintian-overrides"
for shell in bash:planbctl zsh:_planbctl fish:planbctl.fish; do
  "$bin/planbctl" completion "${shell%:*}" \
    > "$tree/built/completions/${shell#*:}"
done
"$bin/planbctl" man > "$tree/built/planbctl.1"
# manual NAME SUMMARY HELP...: the text of its help as it is.
manual() {
  echo ".TH ${1^^} 1 \"\" \"$1 ${version%-*}\" \"User Commands\""
  echo '.SH NAME'
  echo "$1 \\- $2"
  echo '.SH DESCRIPTION'
  echo '.nf'
  "$bin/$1" "${@:3}" 2>&1 | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
  echo '.fi'
}
manual planb_server 'longest-prefix-match lookups over gRPC' --help=all \
  > "$tree/built/planb_server.1"
manual planb-feed 'keeps a table of PlanB Lookup equal to what routing daemons say' --help \
  > "$tree/built/planb-feed.1"
cat > "$tree/debian/changelog" << CHANGES
planb-lookup ($version) bookworm; urgency=medium

  * The changes of each version are in CHANGELOG.md of the source.

 -- PlanB Lookup maintainers <maintainers@planb.invalid>  $(date -R -r VERSION)
CHANGES
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps) \
  > "$work/log" 2>&1 || fail "dpkg-buildpackage: $(tail -n 20 "$work/log")"
mv "$work"/*.deb "$folder"
for package in planb-server planbctl planb-feed libplanb-dev; do
  echo "$folder/${package}_${version}_$(dpkg --print-architecture).deb"
done
