//go:build test_performance

package scheduling_test

// Solves the pods of Karpenter's own scheduling benchmark once, and writes them, the instance types by zone as
// Trimtab's node groups, and what came of it. It is built inside a checkout of Karpenter; see README.md.

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test"
)

type grown struct {
	Pods         int     `json:"pods"`
	Placed       int     `json:"placed"`
	Nodes        int     `json:"nodes"`
	PricePerHour float64 `json:"pricePerHour"`
	SetupSeconds float64 `json:"setupSeconds"`
	SolveSeconds float64 `json:"solveSeconds"`
	// CPUSeconds: of all threads, while it solved.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// TestGrowth reads GROWTH_PODS ("1000,5000"), GROWTH_KIND ("diverse", or "generic": pods without constraints) and
// GROWTH_DIRECTORY from the environment.
func TestGrowth(t *testing.T) {
	directory := os.Getenv("GROWTH_DIRECTORY")
	for _, text := range strings.Split(os.Getenv("GROWTH_PODS"), ",") {
		pods := lo.Ternary(os.Getenv("GROWTH_KIND") == "generic", makeGenericPods, makeDiversePods)(lo.Must(strconv.Atoi(text)))
		found := grow(t, pods)
		lo.Must0(write(filepath.Join(directory, fmt.Sprintf("cluster-%d.json", len(pods))), document(pods)))
		lo.Must0(write(filepath.Join(directory, fmt.Sprintf("karpenter-%d.json", len(pods))), found))
		fmt.Printf("%+v\n", found)
	}
}

func grow(t *testing.T, pods []*corev1.Pod) grown {
	ctx = options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options())
	start := time.Now()
	scheduler, err := setupScheduler(ctx, pods, scheduling.NumConcurrentReconciles(5))
	if err != nil {
		t.Fatal(err)
	}
	ready, used := time.Now(), cpuSeconds()
	results, err := scheduler.Solve(ctx, pods)
	done := time.Now()
	if err != nil {
		t.Fatal(err)
	}
	found := grown{Pods: len(pods), SetupSeconds: ready.Sub(start).Seconds(), SolveSeconds: done.Sub(ready).Seconds()}
	found.CPUSeconds = cpuSeconds() - used
	for _, claim := range results.NewNodeClaims {
		found.Nodes++
		found.Placed += len(claim.Pods)
		found.PricePerHour += cheapest(claim)
	}
	return found
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	lo.Must0(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// cheapest is what a node costs at least, of the instance types and offerings that Karpenter leaves to the cloud.
func cheapest(claim *scheduling.NodeClaim) float64 {
	price := math.Inf(1)
	for _, instanceType := range claim.InstanceTypeOptions {
		for _, offering := range instanceType.Offerings.Available().Compatible(claim.Requirements) {
			price = math.Min(price, offering.Price)
		}
	}
	return price
}

// document is what Trimtab reads: the pods, and a node group for each instance type in each zone.
func document(pods []*corev1.Pod) map[string]any {
	items := []any{}
	for _, one := range pods {
		pod := one.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}}
		items = append(items, pod)
	}
	for _, instanceType := range fake.InstanceTypes(400) {
		for zone, price := range prices(instanceType) {
			name := instanceType.Name + "-" + zone
			items = append(items, map[string]any{
				"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": map[string]any{"name": name},
				"spec": map[string]any{
					"minSize": 0, "maxSize": 20000, "targetSize": 0, "nodes": []string{}, "price": price,
					"template": map[string]any{
						"metadata": map[string]any{"labels": map[string]string{
							corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: instanceType.Name,
						}},
						"status": map[string]any{"capacity": instanceType.Capacity, "allocatable": instanceType.Allocatable()},
					},
				},
			})
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

// prices is the least price of an instance type by zone.
func prices(instanceType *cloudprovider.InstanceType) map[string]float64 {
	found := map[string]float64{}
	for _, offering := range instanceType.Offerings.Available() {
		zone := offering.Requirements.Get(corev1.LabelTopologyZone).Any()
		if price, known := found[zone]; !known || offering.Price < price {
			found[zone] = offering.Price
		}
	}
	return found
}

func write(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
