#!/usr/bin/env bash
# Build helm from its Go module, at the version in go.mod.
# Usage: build.sh OUT      Needs Go >= 1.26 on PATH. Does nothing when OUT was built from the same go.mod, go.sum and script.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
stamp=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi
cd "$here"
CGO_ENABLED=0 GOFLAGS="-buildvcs=false" go build -trimpath -o "$out/" -ldflags "-s -w" tool
echo "$stamp" >"$out/stamp"
