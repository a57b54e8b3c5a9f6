#!/usr/bin/env bash
# Compile, vet and test this package against a checkout of the Cluster Autoscaler, branch cluster-autoscaler-release-1.37, and build a binary
# with it. The package alone also compiles with 1.36, whose loop the command does not fit.
# Usage: check.sh CHECKOUT [BINARY]    CHECKOUT is the folder cluster-autoscaler of github.com/kubernetes/autoscaler; BINARY is
# written: a Cluster Autoscaler with an external cloud provider, as cmd/cluster-autoscaler wires it.
set -euo pipefail
checkout=$(cd "$1" && pwd)
binary=${2:+$(realpath "$2")}
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOWORK=$work/go.work GOFLAGS=-buildvcs=false
go work init "$PWD" "$PWD/../.." "$checkout"
if [[ -f $checkout/apis/go.mod ]]; then go work use "$checkout/apis"; fi
go vet -tags cluster_autoscaler ./...
go test -tags cluster_autoscaler -count=1 ./...
if [[ -n $binary ]]; then go build -tags cluster_autoscaler -o "$binary" ./cmd/cluster-autoscaler; fi
