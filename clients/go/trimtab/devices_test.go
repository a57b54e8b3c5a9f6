package trimtab_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"trimtab.dev/clients/go/trimtab"
)

// devices returns two nodes with a slice of two devices each, which differ in
// their uuid, and a class with a selector.
func devices(expression string) trimtab.Objects {
	objects := cluster(2, 1)
	for at := range 2 {
		spec := resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(fmt.Sprintf("n%04d", at)),
			Pool: resourcev1.ResourcePool{Name: fmt.Sprintf("n%04d", at), ResourceSliceCount: 1},
		}
		for number := range 2 {
			attributes := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"model": {StringValue: ptr.To("A100")}, "uuid": {StringValue: ptr.To(fmt.Sprint(at, number))},
			}
			spec.Devices = append(spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", number), Attributes: attributes})
		}
		objects.ResourceSlices = append(objects.ResourceSlices, &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", at)}, Spec: spec,
		})
	}
	selectors := []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	objects.DeviceClasses = []*resourcev1.DeviceClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors},
	}}
	return objects
}

func TestAttributesThatNoExpressionReadsAreLeftOut(t *testing.T) {
	for expression, contents := range map[string]int{
		`device.attributes["gpu.example.com"].model == "A100"`: 1,
		`device.attributes["gpu.example.com"]["uuid"] == "00"`: 4,
		`"model" in device.attributes["gpu.example.com"]`:      1,
		`device.attributes["gpu.example.com"].size() > 1`:      4,
		`device.attributes.exists(one, true)`:                  4,
		`device.driver == "a\"b"`:                              4,
	} {
		found := build(t, devices(expression)).Devices
		if len(found.Contents) != contents || found.Slices.Count != 2 {
			t.Errorf("%s: %d contents of %d slices", expression, len(found.Contents), found.Slices.Count)
		}
	}
}

func TestAClaimOfATemplateHasItsSpecAndAMissingOneItsProblem(t *testing.T) {
	objects := devices(`device.driver == "gpu.example.com"`)
	request := resourcev1.DeviceRequest{Name: "main", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}}
	objects.ResourceClaimTemplates = []*resourcev1.ResourceClaimTemplate{{
		ObjectMeta: metav1.ObjectMeta{Name: "one-gpu", Namespace: "default"},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: spec},
	}}
	objects.Pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "gpu", ResourceClaimTemplateName: ptr.To("one-gpu")}, {Name: "other", ResourceClaimName: ptr.To("absent")},
	}
	for _, row := range build(t, objects).PodSpecs {
		if len(row.Claims) == 0 {
			continue
		}
		if kind := row.Claims[0].GetSpec().GetRequests()[0].Alternatives[0]; kind.DeviceClass != "gpu" || kind.Count != 1 {
			t.Errorf("the claim is %v", row.Claims[0])
		}
		if problem := row.Claims[1].Problem; problem != "ResourceClaim default/absent does not exist" {
			t.Errorf("the problem is %q", problem)
		}
		return
	}
	t.Error("no spec has claims")
}

func TestASliceThatTheAPIServerWouldRefuseIsLeftOutWithANote(t *testing.T) {
	objects := devices(`device.driver == "gpu.example.com"`)
	objects.ResourceSlices[0].Spec.Driver = ""
	snapshot, err := trimtab.Build(objects)
	if err != nil {
		t.Fatal(err)
	}
	if count := snapshot.Message.Devices.Slices.Count; count != 1 || len(snapshot.Notes) != 1 {
		t.Errorf("%d slices, and the notes %v", count, snapshot.Notes)
	}
}

func TestPodsOfAClaimWithMoreDevicesThanTheAPIAllowsWait(t *testing.T) {
	objects := devices(`device.driver == "gpu.example.com"`)
	request := resourcev1.DeviceRequest{Name: "main", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}},
		Status:     resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}},
	}
	for at := range 33 {
		given := resourcev1.DeviceRequestAllocationResult{
			Request: "main", Driver: "gpu.example.com", Pool: "n0000", Device: fmt.Sprint("gpu-", at),
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, given)
	}
	objects.ResourceClaims = []*resourcev1.ResourceClaim{claim}
	objects.Pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("c")}}
	snapshot, err := trimtab.Build(objects)
	if err != nil {
		t.Fatal(err)
	}
	problem := "ResourceClaim default/c: status.allocation.devices.results: there are 33; the API allows at most 32"
	note := problem + "; pods with it wait, and only the first 32 count as in use"
	if len(snapshot.Notes) != 1 || snapshot.Notes[0] != note {
		t.Errorf("the notes are %q", snapshot.Notes)
	}
	if count := len(snapshot.Message.Devices.Claims.ResultFlags); count != 32 {
		t.Errorf("%d devices are in use", count)
	}
	for _, row := range snapshot.Message.PodSpecs {
		if len(row.Claims) > 0 && row.Claims[0].Problem != problem {
			t.Errorf("the problem is %q", row.Claims[0].Problem)
		}
	}
}
