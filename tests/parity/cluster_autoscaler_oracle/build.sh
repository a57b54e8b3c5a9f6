#!/bin/sh
# build.sh CHECKOUT PROGRAM [MODULE=DIRECTORY...]: build the oracle inside a checkout of kubernetes/autoscaler, or of
# kubernetes-sigs/cluster-autoscaler (from August 2026), whose module it becomes part of. MODULE=DIRECTORY: take this
# module from a directory, as the module proxy does not have the version that the checkout asks for; the checkout's own
# go.mod stays as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
checkout=$1
program=$2
shift 2
module="$checkout/cluster-autoscaler"
[ -d "$module" ] || module="$checkout"
mkdir -p "$module/trimtab-oracle"
cp "$here"/*.go "$module/trimtab-oracle/"
if [ "$module" = "$checkout" ]; then
    sed -i 's#k8s.io/autoscaler/cluster-autoscaler/#sigs.k8s.io/cluster-autoscaler/pkg/#' "$module"/trimtab-oracle/*.go
fi
cd "$module"
if [ $# -eq 0 ]; then
    exec go build -o "$program" ./trimtab-oracle
fi
cp go.mod trimtab-oracle.mod
cp go.sum trimtab-oracle.sum
for replaced in "$@"; do
    go mod edit -replace="$replaced" trimtab-oracle.mod
done
exec go build -mod=mod -modfile=trimtab-oracle.mod -o "$program" ./trimtab-oracle
