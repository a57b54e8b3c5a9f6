#!/usr/bin/env bash
# Build deploy/images/Dockerfile with buildah, in storage of its own, on a base of Debian's packages that stands in for
# python:3.12-slim, for machines that reach no registry of images.
# Usage: build.sh OUT      Needs root, Debian's packages, and what pip reaches; installs buildah and mmdebstrap where they are
# missing. Prints where the image's file system is mounted; OUT/image.json describes it. Exit code 3: no builder here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
missing() { ! command -v buildah >/dev/null || ! command -v mmdebstrap >/dev/null; }
[ "$(id -u)" = 0 ] || { echo "not root" >&2; exit 3; }
if missing && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends buildah mmdebstrap; } >&2 || true
fi
if missing; then echo "no buildah or no mmdebstrap" >&2; exit 3; fi
build() { buildah --root "$out/store" --runroot "$out/run" "$@"; }
export BUILDAH_ISOLATION=chroot
cd "$here/../../.."
mmdebstrap --quiet --variant=apt --include=python3,python3-venv,python-is-python3,ca-certificates trixie "$out/base.tar" >&2
base=$(build from scratch)
build add --quiet "$base" "$out/base.tar" / >&2
build commit --quiet --rm "$base" localhost/python:base >&2
rm "$out/base.tar"
# What pip trusts here, during the build alone.
trust=/etc/ssl/certs/ca-certificates.crt
mounts=()
for file in "$trust" /etc/pip.conf; do [ ! -e "$file" ] || mounts+=(--volume "$file:$file:ro"); done
build bud "${mounts[@]}" --build-arg PYTHON=localhost/python:base --file deploy/images/Dockerfile --tag localhost/trimtab:test . >&2
build inspect --type image localhost/trimtab:test >"$out/image.json"
build mount "$(build from localhost/trimtab:test)"
