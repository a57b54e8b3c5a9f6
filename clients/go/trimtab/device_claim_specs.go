package trimtab

import (
	"cmp"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// Limits of the API of claims.
const (
	mostDeviceRequests     = 32
	mostDeviceConstraints  = 32
	mostDeviceSelectors    = 32
	mostDeviceAlternatives = 8
	mostDeviceTolerations  = 16
	// longestExpression is in bytes.
	longestExpression = 10 * 1024
)

// deviceModes are by `allocationMode`; another one is one of which nothing can
// be allocated.
var deviceModes = map[resourcev1.DeviceAllocationMode]pb.DeviceAllocationMode_Code{
	resourcev1.DeviceAllocationModeExactCount: pb.DeviceAllocationMode_EXACT_COUNT,
	resourcev1.DeviceAllocationModeAll:        pb.DeviceAllocationMode_ALL,
}

// deviceClaimSpec returns what a claim asks for, with the defaults of the API
// server, which refuses what is an error here.
func deviceClaimSpec(spec *resourcev1.ResourceClaimSpec) (*pb.DeviceClaimSpec, error) {
	claim := &spec.Devices
	if err := cmp.Or(
		limited("requests", len(claim.Requests), mostDeviceRequests),
		limited("constraints", len(claim.Constraints), mostDeviceConstraints),
	); err != nil {
		return nil, below("devices", err)
	}
	row, names := &pb.DeviceClaimSpec{}, map[string]bool{}
	for at := range claim.Requests {
		made, err := deviceRequest(&claim.Requests[at])
		if err == nil && names[made.Name] {
			err = badField("name", "give each request its own name", "%s is given twice", made.Name)
		}
		if err != nil {
			return nil, below(fmt.Sprintf("devices.requests[%d]", at), err)
		}
		names[made.Name] = true
		row.Requests = append(row.Requests, made)
	}
	for at := range claim.Constraints {
		made, err := deviceConstraint(&claim.Constraints[at])
		if err != nil {
			return nil, below(fmt.Sprintf("devices.constraints[%d]", at), err)
		}
		row.Constraints = append(row.Constraints, made)
	}
	return row, nil
}

func deviceRequest(from *resourcev1.DeviceRequest) (*pb.DeviceRequest, error) {
	if from.Name == "" {
		return nil, badField("name", "give each request a name", "it is missing")
	}
	hasAlternatives := len(from.FirstAvailable) > 0
	if hasAlternatives == (from.Exactly != nil) {
		given := map[bool]string{true: "both", false: "neither"}[hasAlternatives]
		return nil, badField("", "give one of the two", "%s of `exactly` and `firstAvailable` is given", given)
	}
	row := &pb.DeviceRequest{Name: from.Name, FirstAvailable: hasAlternatives}
	if exact := from.Exactly; exact != nil {
		one, err := deviceKind(&resourcev1.DeviceSubRequest{
			DeviceClassName: exact.DeviceClassName, Selectors: exact.Selectors, AllocationMode: exact.AllocationMode,
			Count: exact.Count, Tolerations: exact.Tolerations, Capacity: exact.Capacity,
		})
		if err != nil {
			return nil, below("exactly", err)
		}
		row.Alternatives = append(row.Alternatives, one)
		row.AdminAccess = ptr.Deref(exact.AdminAccess, false)
	}
	if err := limited("firstAvailable", len(from.FirstAvailable), mostDeviceAlternatives); err != nil {
		return nil, err
	}
	for at := range from.FirstAvailable {
		path := fmt.Sprintf("firstAvailable[%d]", at)
		if from.FirstAvailable[at].Name == "" {
			return nil, badField(path+".name", "give each alternative a name", "it is missing")
		}
		one, err := deviceKind(&from.FirstAvailable[at])
		if err != nil {
			return nil, below(path, err)
		}
		row.Alternatives = append(row.Alternatives, one)
	}
	return row, nil
}

// deviceKind returns one alternative of a request.
func deviceKind(from *resourcev1.DeviceSubRequest) (*pb.DeviceSubRequest, error) {
	if from.DeviceClassName == "" {
		return nil, badField("deviceClassName", "name a DeviceClass", "it is missing")
	}
	texts, isOther, err := expressionsOf(from.Selectors)
	if err != nil {
		return nil, err
	}
	if err := limited("tolerations", len(from.Tolerations), mostDeviceTolerations); err != nil {
		return nil, err
	}
	if from.Count < 0 {
		return nil, badField("count", "give at least 1", "%d is negative", from.Count)
	}
	name, count := cmp.Or(from.AllocationMode, resourcev1.DeviceAllocationModeExactCount), from.Count
	if name == resourcev1.DeviceAllocationModeExactCount {
		count = cmp.Or(count, 1)
	}
	mode, isKnown := deviceModes[name]
	if !isKnown {
		mode = pb.DeviceAllocationMode_OTHER
	}
	row := &pb.DeviceSubRequest{
		Name: from.Name, DeviceClass: from.DeviceClassName, Selectors: texts, Mode: mode, Count: count, UnknownSelector: isOther,
	}
	for _, one := range from.Tolerations {
		row.Tolerations = append(row.Tolerations, &pb.DeviceToleration{
			Key: one.Key, Operator: string(one.Operator), Value: one.Value, Effect: string(one.Effect),
		})
	}
	if from.Capacity != nil {
		row.Capacities = namedQuantities(from.Capacity.Requests)
	}
	return row, nil
}

func deviceConstraint(from *resourcev1.DeviceConstraint) (*pb.DeviceConstraint, error) {
	row := &pb.DeviceConstraint{
		Requests: from.Requests, MatchAttribute: string(ptr.Deref(from.MatchAttribute, "")),
		DistinctAttribute: string(ptr.Deref(from.DistinctAttribute, "")),
	}
	if (row.MatchAttribute != "") == (row.DistinctAttribute != "") {
		given := map[bool]string{true: "both", false: "neither"}[row.MatchAttribute != ""]
		return nil, badField("", "give one of the two", "%s of `matchAttribute` and `distinctAttribute` is given", given)
	}
	return row, nil
}

// expressionsOf returns the expressions of selectors, and whether one of them is
// not an expression.
func expressionsOf(selectors []resourcev1.DeviceSelector) (texts []string, isOther bool, err error) {
	if err := limited("selectors", len(selectors), mostDeviceSelectors); err != nil {
		return nil, false, err
	}
	for at, one := range selectors {
		switch {
		case one.CEL == nil || one.CEL.Expression == "":
			isOther = true
		case len(one.CEL.Expression) > longestExpression:
			return nil, false, badField(fmt.Sprintf("selectors[%d].cel.expression", at), "shorten it",
				"the expression has more than %d bytes", longestExpression)
		default:
			texts = append(texts, one.CEL.Expression)
		}
	}
	return texts, isOther, nil
}

// namedQuantities returns quantities as the API server writes them, by name.
func namedQuantities[N ~string](from map[N]resource.Quantity) []*pb.NamedQuantity {
	var out []*pb.NamedQuantity
	for _, name := range sortedKeys(from) {
		amount := from[name]
		out = append(out, &pb.NamedQuantity{Name: string(name), Value: amount.String()})
	}
	return out
}

// limited refuses more items than the API allows.
func limited(field string, count, most int) error {
	if count > most {
		return badField(field, fmt.Sprintf("give at most %d", most), "there are %d", count)
	}
	return nil
}
