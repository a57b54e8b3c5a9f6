package listers_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"trimtab.dev/clients/go/trimtab/listers"
)

func TestInformersGiveTheObjectsOfACluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	api := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p1", Namespace: "default", UID: "u1"}},
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s1"}},
	)
	factory := informers.NewSharedInformerFactory(api, 0)
	from, err := listers.FromFactory(factory)
	if err != nil {
		t.Fatal(err)
	}
	if from, err = from.WithDevices(factory); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	cluster, err := from.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, one := range cluster.Objects {
		names = append(names, one.GetName())
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"n1", "p1", "s1"}) {
		t.Errorf("the objects are %v", names)
	}
	if !slices.Contains(cluster.Listed, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")) {
		t.Error("claims count as not known, although they are listed")
	}
}
