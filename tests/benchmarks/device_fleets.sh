#!/bin/sh
# device_fleets.sh CHECKOUT PROGRAM: build the benchmarks of pull request 53 of kubernetes-sigs/cluster-autoscaler as a
# program. CHECKOUT: of that pull request, or of the repository with the two files *_dra_*_test.go of the pull request
# in pkg/estimator. The program also prints nodes, pods, and seconds of CPU of all threads, for busy machines:
#   PROGRAM -test.run '^$' -test.bench DRA -test.benchtime 1x
set -eu
cd "$1/pkg/estimator"
cat > cpu_seconds_test.go <<'GO'
package estimator

import (
	"syscall"
	"time"
)

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
GO
for file in *_dra_benchmark_test.go *_dra_profiles_test.go; do
    grep -q cpuSeconds "$file" && continue
    sed -i \
        -e 's/^\t*var estimatedNodes int$/&\nvar used float64/' \
        -e 's/^\t*estimatedNodes, estimatedPods = estimator.Estimate(.*$/start := cpuSeconds()\n&\nused += cpuSeconds() - start/' \
        -e 's/^\t\t\tb.StopTimer()$/&\nb.ReportMetric(used\/float64(b.N), "cpu-s")\nb.ReportMetric(float64(estimatedNodes), "nodes")\nb.ReportMetric(float64(len(estimatedPods)), "pods")/' \
        "$file"
done
exec go test -c -o "$2" .
