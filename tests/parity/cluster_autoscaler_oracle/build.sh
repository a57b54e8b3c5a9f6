#!/bin/sh
# build.sh CHECKOUT PROGRAM: build the oracle inside a checkout of kubernetes/autoscaler, or of kubernetes-sigs/cluster-autoscaler
# (from August 2026), whose module it becomes part of.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
module="$1/cluster-autoscaler"
[ -d "$module" ] || module="$1"
mkdir -p "$module/trimtab-oracle"
cp "$here"/*.go "$module/trimtab-oracle/"
if [ "$module" = "$1" ]; then
    sed -i 's#k8s.io/autoscaler/cluster-autoscaler/#sigs.k8s.io/cluster-autoscaler/pkg/#' "$module"/trimtab-oracle/*.go
fi
(cd "$module" && go build -o "$2" ./trimtab-oracle)
