#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds the image localhost/planb-lookup:VERSION and saves it as a docker-archive,
# with what it is made of beside it: ARCHIVE.spdx.json.
#
#   deploy/image/image.sh ARCHIVE.tar [FOLDER | --multiarch | --router]
#
# FOLDER is rootfs.sh's. With --multiarch, an image for amd64 and one for arm64
# under one name, in an oci-archive; the programs for arm64 are tried with qemu. With
# --router, localhost/planb-router:VERSION, of examples/router; needs libdpdk-dev.
# Needs root and buildah, no registry; for arm64 Debian's packages of it. Builds
# twice: the same files must give the same image.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
umask 022
readonly MAX_BYTES=65000000
version=$(< "$here/../../VERSION")
readonly version

arguments $# 1 2
archive=$(realpath "$1")
declare -a architectures=(amd64) folder=("${@:2}")
name=planb-lookup wanted="planb-feed planb_own_folder planb_server planbctl"
case "${2:-}" in
  --multiarch) architectures=(amd64 arm64) folder=() ;;
  --router) name=planb-router wanted=planb_router ;;
esac
readonly IMAGE=localhost/$name:$version

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

# answer ROOT PROGRAM FLAG: the program runs on the files of its image alone.
answer() {
  case $architecture in
    amd64) chroot "$1" "/usr/bin/$2" "$3" ;;
    arm64) qemu-aarch64 -L "$1" "$1/usr/bin/$2" "$3" ;;
  esac
}
build() { # TAG
  "${buildah[@]}" bud --isolation=chroot --no-cache --timestamp 0 --quiet \
    --platform "linux/$architecture" \
    --label "org.opencontainers.image.version=$version" \
    --file "$here/Containerfile" --target "$name" --tag "$1" "$work/$architecture"
}
# The router finds DPDK's drivers among the files of its image: they start before --fib
# is looked at.
try_router() {
  local code=0
  mkdir "$root/sys"
  # shellcheck disable=SC2016 # The inner shell has $1.
  unshare --net --mount bash -c 'mount --rbind /sys "$1/sys" &&
    exec chroot "$1" /usr/bin/planb_router --interfaces=lo --fib=none' bash "$root" \
    > "$work/router" 2>&1 || code=$?
  rmdir "$root/sys"
  { ((code == 2)) && grep -q -- '--fib=none: not local' "$work/router"; } ||
    fail "planb_router ended with $code: $(tail -n 5 "$work/router")"
}

declare -a ids=()
for architecture in "${architectures[@]}"; do
  root=$work/$architecture/rootfs
  [[ $architecture == amd64 ]] || folder=(--arm64)
  "$here/rootfs.sh" "$root" "${folder[@]}"
  if [[ $name == planb-router ]]; then
    try_router
  else
    for program in planb_server planbctl planb-feed; do
      [[ "$(answer "$root" "$program" --version)" == "$program $version" ]] ||
        fail "$program for $architecture is not of version $version"
    done
  fi

  # Nothing in it but programs and what they load: no shell, no setuid.
  foreign=$(find "$root" -type f -exec sh -c '
    for file; do
      [ "$(head -c 4 "$file" | od -An -tx1)" = " 7f 45 4c 46" ] || echo "$file"
    done' sh {} +)
  [[ -z "$foreign" ]] || fail "no program: $foreign"
  programs=$(find "$root/usr/bin" -printf '%P\n' | LC_ALL=C sort | xargs)
  [[ "$programs" == "$wanted" ]] ||
    fail "programs in the image: $programs"
  [[ -z "$(find "$root" -perm /6000)" ]] || fail "something is setuid or setgid"
  [[ -z "$(find "$root" ! -type l -perm /022)" ]] || fail "others may write files"

  id=$(build "$IMAGE-$architecture")
  again=$(build "$IMAGE-$architecture")
  [[ "$id" == "$again" ]] || fail "two builds differ: $id and $again"
  "${buildah[@]}" inspect --type image "$id" > "$work/image.json"
  for line in "\"org.opencontainers.image.version\": \"$version\"" \
    "\"architecture\": \"$architecture\""; do
    grep -qF "$line" "$work/image.json" || fail "the image does not say $line"
  done
  ids+=("$id")
  sbom=${archive%.tar}.spdx.json
  [[ $architecture == amd64 ]] || sbom=${archive%.tar}.$architecture.spdx.json
  "$here/sbom.py" "$root" > "$sbom" || fail "no SBOM"
  (cd "$root" && find . -type f -printf '%11s  %P\n' | sort -k 2)
done

rm -f "$archive"
if ((${#ids[@]} == 1)); then
  "${buildah[@]}" tag "${ids[0]}" "$IMAGE"
  "${buildah[@]}" push --quiet "$IMAGE" "docker-archive:$archive:$IMAGE"
else
  "${buildah[@]}" manifest create "$IMAGE" "${ids[@]}" > /dev/null
  "${buildah[@]}" manifest push --all --quiet "$IMAGE" "oci-archive:$archive:$IMAGE"
  archived=$(tar -xOf "$archive" index.json)
  [[ "$archived" == *'vnd.oci.image.index'* ]] || fail "no index of images: $archived"
fi
size=$(stat --format=%s "$archive")
((size < MAX_BYTES * ${#ids[@]})) || fail "$size bytes, more than $MAX_BYTES each"
echo "PASS: $IMAGE for ${architectures[*]}, $size bytes, each the same twice"
