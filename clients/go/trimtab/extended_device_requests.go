package trimtab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// implicitResource is the prefix of the extended resource that every class of
// devices provides.
const implicitResource = "deviceclass.resource.kubernetes.io/"

// providedResources returns the extended resources that classes provide.
func providedResources(classes []*resourcev1.DeviceClass) map[string]bool {
	out := map[string]bool{}
	for _, one := range classes {
		out[implicitResource+one.Name] = true
		if name := ptr.Deref(one.Spec.ExtendedResourceName, ""); name != "" {
			out[name] = true
		}
	}
	return out
}

// askedDevices is what the container at a place asks for, as a request.
type askedDevices struct {
	place, amount int64
	name          string
}

// extendedDeviceRequests returns the requests of the claim that the scheduler
// would make for the extended resources of a pod that devices may satisfy,
// sorted by name.
func extendedDeviceRequests(spec *corev1.PodSpec, isProvided map[string]bool) []*pb.ExtendedDeviceRequest {
	if len(isProvided) == 0 {
		return nil
	}
	containers := slices.Concat(spec.InitContainers, spec.Containers)
	asked := map[string][]askedDevices{}
	for at := range containers {
		addAsked(asked, int64(at), &containers[at], isProvided)
	}
	endsEarly := func(one askedDevices) bool {
		return one.place < int64(len(spec.InitContainers)) && !isSidecar(&containers[one.place])
	}
	var rows []*pb.ExtendedDeviceRequest
	for _, resource := range sortedKeys(asked) {
		for _, one := range countedDevices(asked[resource], endsEarly) {
			rows = append(rows, &pb.ExtendedDeviceRequest{Name: one.name, Resource: resource, Count: one.amount})
		}
	}
	slices.SortStableFunc(rows, func(a, b *pb.ExtendedDeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// countedDevices returns the requests that remain of one resource. A container
// that ends before others start has the devices of those, and asks for what is
// missing; of several such, the largest counts.
func countedDevices(asked []askedDevices, endsEarly func(askedDevices) bool) []askedDevices {
	var lasting []askedDevices
	for _, one := range asked {
		if !endsEarly(one) {
			lasting = append(lasting, one)
		}
	}
	var largest askedDevices
	for _, one := range asked {
		if !endsEarly(one) {
			continue
		}
		for _, later := range lasting {
			if later.place > one.place {
				one.amount -= later.amount
			}
		}
		if one.amount > largest.amount {
			largest = one
		}
	}
	if largest.amount > 0 {
		lasting = append(lasting, largest)
	}
	return lasting
}

// addAsked adds what a container asks for.
func addAsked(asked map[string][]askedDevices, at int64, container *corev1.Container, isProvided map[string]bool) {
	requests := corev1.ResourceList{}
	maps.Copy(requests, container.Resources.Limits)
	maps.Copy(requests, container.Resources.Requests)
	for place, name := range sortedKeys(requests) {
		if !strings.Contains(string(name), "/") || !isProvided[string(name)] {
			continue
		}
		if whole := milliOf(requests[name]) / 1000; whole >= 1 {
			one := askedDevices{at, whole, fmt.Sprintf("container-%d-request-%d", at, place)}
			asked[string(name)] = append(asked[string(name)], one)
		}
	}
}
