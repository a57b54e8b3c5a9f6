#!/usr/bin/env bash
# Build promtool from Prometheus' Go module, at the version in go.mod; two minutes of one core. Needs Go >= 1.26 on PATH.
# Usage: build.sh OUT      Does nothing when OUT was built from the same go.mod, go.sum and script. Then, from the root:
#   OUT/promtool check rules deploy/chart/observe/rules.yaml
#   OUT/promtool test rules tests/promtool/rules_test.yaml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
stamp=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi
cd "$here"
# Rules need no service discovery, and some of its modules are not to be had from the proxy.
CGO_ENABLED=0 GOFLAGS="-buildvcs=false -tags=remove_all_sd" go build -trimpath -o "$out/" -ldflags "-s -w" tool
echo "$stamp" >"$out/stamp"
