#!/usr/bin/env bash
# Build the real control plane from Go modules alone: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
# kubectl and kwok, at the versions in go.mod, with kwok's own stage files beside them.
# Usage: build.sh OUT      Needs Go >= 1.26 on PATH. Does nothing when OUT was built from the same go.mod, go.sum and script.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
stamp=$(cat "$here/go.mod" "$here/go.sum" "$here/build.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi
cd "$here"
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false"
version() { awk -v module="$1" '$1 == module {print $2; exit}' go.mod; }
kubernetes=$(version k8s.io/kubernetes)
flags="-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=$(version sigs.k8s.io/kwok)"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags="$flags -X $package.gitVersion=$kubernetes -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$kubernetes")"
  flags="$flags -X $package.gitCommit=unknown -X $package.gitTreeState=archive -X $package.buildDate=1970-01-01T00:00:00Z"
done
go build -trimpath -o "$out/" -ldflags "$flags" tool # "tool": every package of go.mod's tool block
mv "$out/server" "$out/etcd"
stages=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
for file in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-{ready,complete,delete}; do
  cat "$stages/$file.yaml"
  printf '\n---\n'
done >"$out/stages.yaml"
echo "$stamp" >"$out/stamp"
