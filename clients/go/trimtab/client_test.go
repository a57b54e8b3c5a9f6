package trimtab_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"trimtab.dev/clients/go/trimtab"
	pb "trimtab.dev/clients/go/trimtabv1"
)

// sentBytes counts what a connection sends.
type sentBytes struct{ atomic.Int64 }

func (s *sentBytes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (s *sentBytes) HandleRPC(_ context.Context, event stats.RPCStats) {
	if out, ok := event.(*stats.OutPayload); ok {
		s.Add(int64(out.Length))
	}
}
func (s *sentBytes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *sentBytes) HandleConn(context.Context, stats.ConnStats)                       {}

func client(t *testing.T, address string, options trimtab.Options) *trimtab.Client {
	t.Helper()
	out, err := trimtab.NewClient(address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return out
}

func request() *pb.PlanRequest {
	return &pb.PlanRequest{
		Cluster:   "test é",
		Decisions: []pb.Decision_Code{pb.Decision_SCALE_DOWN},
		Now:       timestamppb.New(created.Add(24 * time.Hour)),
	}
}

func TestAPlanOfSparePodsFreesNodes(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	objects := cluster(4, 2)
	first, err := planner.Plan(t.Context(), objects.now(), request())
	if err != nil {
		t.Fatal(err)
	}
	if len(first.ScaleDown.Unneeded) == 0 {
		t.Fatalf("no node is unneeded: %v", first.ScaleDown)
	}
	later := request()
	later.Now, later.State = timestamppb.New(created.Add(25*time.Hour)), first.State
	second, err := planner.Plan(t.Context(), objects.now(), later)
	if err != nil {
		t.Fatal(err)
	}
	if len(second.ScaleDown.Drain) == 0 {
		t.Errorf("no node is drained after an hour: %v", second.ScaleDown)
	}
}

func TestAPlanOverWhatHasChangedIsThatOverTheWholeCluster(t *testing.T) {
	var sent sentBytes
	options := trimtab.Options{DialOptions: []grpc.DialOption{grpc.WithStatsHandler(&sent)}}
	planner := client(t, plannerAddress(t), options)
	objects := cluster(400, 10)
	for at, one := range objects.nodes {
		one.UID, one.ResourceVersion = types.UID(one.Name), strconv.Itoa(at) // compared by it
	}
	if _, err := planner.Plan(t.Context(), objects.now(), request()); err != nil {
		t.Fatal(err)
	}
	whole := sent.Swap(0)
	// One pod goes, one comes, one moves; a node is cordoned, one goes.
	objects.pods = append(objects.pods[1:], pod("another", "n0007"))
	moved := objects.pods[100].DeepCopy()
	moved.Spec.NodeName = "n0009"
	objects.pods[100] = moved
	cordoned := objects.nodes[3].DeepCopy()
	cordoned.Spec.Unschedulable, cordoned.ResourceVersion = true, "1000"
	objects.nodes[3] = cordoned
	objects.nodes = objects.nodes[:399]
	answer, err := planner.Plan(t.Context(), objects.now(), request())
	if err != nil {
		t.Fatal(err)
	}
	if changes := sent.Load(); changes*50 > whole {
		t.Errorf("%d bytes were sent for the change, %d for the whole cluster", changes, whole)
	}
	fresh, err := client(t, plannerAddress(t), trimtab.Options{}).Plan(t.Context(), objects.now(), request())
	if err != nil {
		t.Fatal(err)
	}
	if answer.SnapshotVersion != fresh.SnapshotVersion {
		t.Error("the planner has another cluster after the change")
	}
	answer.Diagnostics, fresh.Diagnostics = nil, nil
	// Of the objects of each request alone.
	answer.Summary.ObjectNotes, fresh.Summary.ObjectNotes = nil, nil
	if !proto.Equal(answer, fresh) {
		t.Error("the plan over what has changed is another one")
	}
}

func TestOtherAnnotationsWithNumbersAreSentForAllPods(t *testing.T) {
	objects := cluster(2, 3)
	for at, one := range objects.pods {
		one.Annotations = map[string]string{"example.com/cost": strconv.Itoa(at)}
		one.UID, one.ResourceVersion = types.UID(one.Name), "1"
	}
	asked := request()
	asked.Decisions = []pb.Decision_Code{pb.Decision_POD_COSTS}
	planner := client(t, plannerAddress(t), trimtab.Options{})
	if _, err := planner.Plan(t.Context(), objects.now(), asked); err != nil {
		t.Fatal(err)
	}
	terms := []*pb.PodCostTerm{{Strategy: pb.PodCostStrategy_ACCUMULATED_WORK, Annotation: "example.com/cost", Weight: proto.Float64(1)}}
	asked.Settings = &pb.PlanSettings{PodCosts: &pb.PodCostSettings{Targets: []*pb.PodCostTarget{{Strategies: terms}}}}
	answer, err := planner.Plan(t.Context(), objects.now(), asked)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := client(t, plannerAddress(t), trimtab.Options{}).Plan(t.Context(), objects.now(), asked)
	if err != nil || !proto.Equal(answer.PodCosts, fresh.PodCosts) || answer.SnapshotVersion != fresh.SnapshotVersion {
		t.Errorf("costs are %v, of a new client %v, %v", answer.PodCosts, fresh.GetPodCosts(), err)
	}
}

func TestAListWithoutObjectsSaysThatThereAreNone(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	objects := cluster(1, 1)
	objects.pods[0].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
	}}}
	unknown, err := planner.Plan(t.Context(), objects.now(), request())
	if err != nil {
		t.Fatal(err)
	}
	now := objects.now()
	now.Listed = []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")}
	none, err := planner.Plan(t.Context(), now, request())
	if err != nil || unknown.SnapshotVersion == none.SnapshotVersion {
		t.Errorf("it makes no difference, %v", err)
	}
}

func TestCheckFitAnswersForEachPodInOrder(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	objects := cluster(3, 1)
	objects.pods = append(objects.pods, pod("waiting-b", ""), pod("waiting-a", ""))
	var pods []string
	err := planner.CheckFit(t.Context(), objects.now(), request(), func(answer *pb.CheckFitResponse) error {
		pods = append(pods, answer.Pod)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) != 2 || pods[0] != "default/waiting-a" || pods[1] != "default/waiting-b" {
		t.Errorf("the answers are for %v", pods)
	}
}

func TestAnErrorOfThePlannerSaysReasonObjectAndField(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	objects := cluster(2, 1)
	objects.pods[0].Spec.Tolerations = []corev1.Toleration{{Effect: "x"}}
	_, err := planner.Plan(t.Context(), objects.now(), request())
	var own *trimtab.Error
	if !asError(err, &own) || own.Code != codes.InvalidArgument || own.Reason != pb.ErrorReason_OBJECT_INVALID {
		t.Fatalf("the error is %v", err)
	}
	if own.Metadata["kind"] != "Pod" || own.Metadata["field"] != "spec.tolerations[0].effect" {
		t.Errorf("the error is %+v", own)
	}
}

func TestAnObjectThatIsGivenTwiceOrNamesNoKindIsAnError(t *testing.T) {
	planner := client(t, "127.0.0.1:1", trimtab.Options{})
	for text, object := range map[string]trimtab.Object{
		"Pod default/p is given twice":          &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
		"an object has no apiVersion and kind:": &trimtab.NodeGroup{},
	} {
		_, err := planner.Plan(t.Context(), &trimtab.Cluster{Objects: []trimtab.Object{object, object}}, request())
		if err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestSettingsThatRestrictNeedTheirFeature(t *testing.T) {
	settings := &pb.PlanSettings{ScaleDown: &pb.ScaleDownSettings{UnneededTime: durationpb.New(time.Hour)}}
	if found := trimtab.RequiredFeatures(settings); len(found) != 1 || found[0] != "unneeded-times" {
		t.Errorf("the features are %v", found)
	}
	planner := client(t, plannerAddress(t), trimtab.Options{})
	asked := request()
	asked.Settings = settings
	if _, err := planner.Plan(t.Context(), cluster(2, 1).now(), asked); err != nil {
		t.Error(err)
	}
	asked.RequiredFeatures = []string{"of-the-future"}
	_, err := planner.Plan(t.Context(), cluster(2, 1).now(), asked)
	if trimtab.ReasonOf(err) != pb.ErrorReason_FEATURE_UNKNOWN {
		t.Errorf("the error is %v", err)
	}
}

func TestInfoTellsTheFeatures(t *testing.T) {
	info, err := client(t, plannerAddress(t), trimtab.Options{}).Info(t.Context())
	if err != nil || len(info.Features) == 0 {
		t.Errorf("the planner's features are %v, %v", info.GetFeatures(), err)
	}
}
