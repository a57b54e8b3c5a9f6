package listers_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtab/listers"
)

func TestInformersGiveTheObjectsOfASnapshot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	api := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p1", Namespace: "default", UID: "u1"},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
		},
	)
	factory := informers.NewSharedInformerFactory(api, 0)
	from := listers.FromFactory(factory)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	objects, err := from.Objects()
	if err != nil {
		t.Fatal(err)
	}
	if objects.PersistentVolumeClaims == nil {
		t.Error("claims count as not known, although they are listed")
	}
	snapshot, err := trimtab.Build(objects)
	if err != nil {
		t.Fatal(err)
	}
	if len(snapshot.Message.Nodes) != 1 || snapshot.Message.Pods.Count != 1 {
		t.Errorf("the snapshot is %v", snapshot.Message)
	}
}

func TestInformersOfDevicesGiveTheirSlicesAndClaims(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	spec := resourcev1.ResourceSliceSpec{Driver: "d", Pool: resourcev1.ResourcePool{Name: "p", ResourceSliceCount: 1}}
	api := fake.NewClientset(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: spec})
	factory := informers.NewSharedInformerFactory(api, 0)
	from := listers.FromFactory(factory).WithDevices(factory)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	objects, err := from.Objects()
	if err != nil {
		t.Fatal(err)
	}
	if objects.ResourceClaims == nil {
		t.Error("claims of devices count as not known, although they are listed")
	}
	snapshot, err := trimtab.Build(objects)
	if err != nil {
		t.Fatal(err)
	}
	if count := snapshot.Message.GetDevices().GetSlices().GetCount(); count != 1 {
		t.Errorf("the snapshot has %d slices", count)
	}
}

func TestAListerThatIsMissingLeavesItsKindOut(t *testing.T) {
	objects, err := listers.Listers{}.Objects()
	if err != nil || objects.Nodes != nil || objects.PersistentVolumeClaims != nil {
		t.Errorf("the objects are %+v, %v", objects, err)
	}
}
