#!/usr/bin/env bash
# Compile, vet and test this package against a checkout of the Cluster Autoscaler 1.36.
# Usage: check.sh CHECKOUT    CHECKOUT is the folder cluster-autoscaler of github.com/kubernetes/autoscaler.
set -euo pipefail
checkout=$(cd "$1" && pwd)
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOWORK=$work/go.work GOFLAGS=-buildvcs=false
go work init "$PWD" "$PWD/../.." "$checkout"
if [[ -f $checkout/apis/go.mod ]]; then go work use "$checkout/apis"; fi
go vet -tags cluster_autoscaler ./...
go test -tags cluster_autoscaler -count=1 ./...
