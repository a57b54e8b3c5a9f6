#!/bin/sh
# build.sh CHECKOUT PROGRAM: build the oracle inside a checkout of kubernetes/autoscaler, whose module it becomes part of.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
module="$1/cluster-autoscaler"
mkdir -p "$module/trimtab-oracle"
cp "$here"/*.go "$module/trimtab-oracle/"
(cd "$module" && go build -o "$2" ./trimtab-oracle)
