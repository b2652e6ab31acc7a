#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds the image localhost/planb-lookup:VERSION and saves it as a docker-archive,
# with what it is made of beside it: ARCHIVE.spdx.json.
#
#   deploy/image/image.sh ARCHIVE.tar [FOLDER]
#
# FOLDER is rootfs.sh's. Needs root and buildah, no registry and no network.
# Builds twice: the same files must give the same image.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
umask 022
readonly MAX_BYTES=$((40 << 20))
version=$(< "$here/../../VERSION")
readonly version IMAGE=localhost/planb-lookup:$version

arguments $# 1 2
archive=$(realpath "$1")

work=$(mktemp -d)
# The image store is private and thrown away: only the archive stays.
buildah=(buildah --root "$work/store" --runroot "$work/run"
  --storage-driver vfs)
trap 'rm -rf "$work"' EXIT

need_root "building the image"
"$here/../packages.sh" buildah
# Whether this machine builds images at all must not depend on our files.
mkdir "$work/empty"
if ! "${buildah[@]}" bud --isolation=chroot --file - "$work/empty" \
  > "$work/probe" 2>&1 <<< $'FROM scratch\nCOPY . /\n'; then
  echo "SKIP: buildah cannot build here: $(tail -n 1 "$work/probe")"
  exit 77
fi

root=$work/context/rootfs
"$here/rootfs.sh" "$root" "${@:2}"
for binary in "$root"/usr/bin/planb_server "$root"/usr/bin/planbctl; do
  chroot "$root" /lib64/ld-linux-x86-64.so.2 --list \
    "/usr/bin/$(basename "$binary")" > /dev/null ||
    fail "$binary does not load from the image's files alone"
  [[ "$(chroot "$root" "/usr/bin/$(basename "$binary")" --version)" == \
    "$(basename "$binary") $version" ]] ||
    fail "$binary is not of version $version"
done

# Nothing in it but programs and what they load: no shell, no setuid.
foreign=$(find "$root" -type f -exec sh -c '
  for file; do
    [ "$(head -c 4 "$file" | od -An -tx1)" = " 7f 45 4c 46" ] || echo "$file"
  done' sh {} +)
[[ -z "$foreign" ]] || fail "no program: $foreign"
programs=$(find "$root/usr/bin" -printf '%P\n' | sort | xargs)
[[ "$programs" == "planb_own_folder planb_server planbctl" ]] ||
  fail "programs in the image: $programs"
[[ -z "$(find "$root" -perm /6000)" ]] || fail "something is setuid or setgid"
[[ -z "$(find "$root" ! -type l -perm /022)" ]] || fail "others may write files"

build() {
  "${buildah[@]}" bud --isolation=chroot --no-cache --timestamp 0 --quiet \
    --label "org.opencontainers.image.version=$version" \
    --file "$here/Containerfile" --tag "$IMAGE" "$work/context"
}
id=$(build)
again=$(build)
[[ "$id" == "$again" ]] || fail "two builds differ: $id and $again"
"${buildah[@]}" inspect --type image "$IMAGE" |
  grep "\"org.opencontainers.image.version\": \"$version\"" > /dev/null ||
  fail "no label says version $version"

rm -f "$archive"
"${buildah[@]}" push --quiet "$IMAGE" "docker-archive:$archive:$IMAGE"
size=$(stat --format=%s "$archive")
((size < MAX_BYTES)) || fail "$size bytes, more than $MAX_BYTES"
"$here/sbom.py" "$root" > "${archive%.tar}.spdx.json" || fail "no SBOM"
(cd "$root" && find . -type f -printf '%11s  %P\n' | sort -k 2)
echo "PASS: $IMAGE, $size bytes, id ${id:0:12}, the same twice"
