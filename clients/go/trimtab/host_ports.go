package trimtab

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// hostPort is a port of a node that a pod takes; protocol "" is TCP, address ""
// is every address.
type hostPort struct {
	protocol, address string
	port              int32
}

// hostPorts returns the host ports of containers and sidecars, without
// duplicates, sorted. In the host's network every container port is one.
func hostPorts(spec *corev1.PodSpec, d *dictionary) ([]*pb.HostPort, error) {
	var found []hostPort
	for i := range spec.Containers {
		more, err := containerPorts(&spec.Containers[i], spec.HostNetwork)
		if err != nil {
			return nil, below(fmt.Sprintf("containers[%d]", i), err)
		}
		found = append(found, more...)
	}
	for i := range spec.InitContainers {
		if !isSidecar(&spec.InitContainers[i]) {
			continue
		}
		more, err := containerPorts(&spec.InitContainers[i], spec.HostNetwork)
		if err != nil {
			return nil, below(fmt.Sprintf("initContainers[%d]", i), err)
		}
		found = append(found, more...)
	}
	slices.SortFunc(found, func(a, b hostPort) int {
		return compareInTurn(a.protocol, b.protocol, a.address, b.address, a.port, b.port)
	})
	var out []*pb.HostPort
	for _, one := range slices.Compact(found) {
		row := &pb.HostPort{Port: one.port}
		row.Protocol = d.string(one.protocol)
		row.HostIp = d.string(one.address)
		out = append(out, row)
	}
	return out, nil
}

func containerPorts(container *corev1.Container, hostNetwork bool) ([]hostPort, error) {
	var out []hostPort
	for i, one := range container.Ports {
		path := fmt.Sprintf("ports[%d]", i)
		number := one.HostPort
		if number == 0 && hostNetwork {
			number = one.ContainerPort
		}
		if number < 0 || number > 65535 {
			return nil, badField(path+".hostPort", "give a number from 1 to 65535", "%d is not a port", number)
		}
		if number == 0 {
			continue
		}
		port := hostPort{address: one.HostIP, port: number}
		switch one.Protocol {
		case "", corev1.ProtocolTCP:
		case corev1.ProtocolUDP, corev1.ProtocolSCTP:
			port.protocol = string(one.Protocol)
		default:
			return nil, badField(path+".protocol", "use one of TCP, UDP, SCTP", "%q is unknown", one.Protocol)
		}
		if port.address == "0.0.0.0" {
			port.address = ""
		}
		out = append(out, port)
	}
	return out, nil
}

// compareInTurn compares two pairs of texts, then a pair of numbers.
func compareInTurn(a, b, c, d string, e, f int32) int {
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d), cmp.Compare(e, f))
}
