package trimtab_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	snapshot := build(t, cluster(4, 2))
	first, err := planner.Plan(t.Context(), snapshot, request())
	if err != nil {
		t.Fatal(err)
	}
	if len(first.ScaleDown.Unneeded) == 0 {
		t.Fatalf("no node is unneeded: %v", first.ScaleDown)
	}
	later := request()
	later.Now, later.State = timestamppb.New(created.Add(25*time.Hour)), first.State
	second, err := planner.Plan(t.Context(), snapshot, later)
	if err != nil {
		t.Fatal(err)
	}
	if len(second.ScaleDown.Drain) == 0 {
		t.Errorf("no node is drained after an hour: %v", second.ScaleDown)
	}
}

func TestTheVersionAfterADeltaIsThatOfTheWholeSnapshot(t *testing.T) {
	var sent sentBytes
	options := trimtab.Options{DialOptions: []grpc.DialOption{grpc.WithStatsHandler(&sent)}}
	planner := client(t, plannerAddress(t), options)
	objects := cluster(400, 10)
	if _, err := planner.Plan(t.Context(), build(t, objects), request()); err != nil {
		t.Fatal(err)
	}
	whole := sent.Swap(0)
	// One pod goes, one comes, one moves; a node is tainted, one goes.
	objects.Pods = append(objects.Pods[1:], pod("another", "n0007"))
	moved := objects.Pods[100].DeepCopy()
	moved.Spec.NodeName = "n0009"
	objects.Pods[100] = moved
	objects.Nodes[3].Spec.Unschedulable = true
	objects.Nodes = objects.Nodes[:399]
	after := build(t, objects)
	answer, err := planner.Plan(t.Context(), after, request())
	if err != nil {
		t.Fatal(err)
	}
	if delta := sent.Load(); delta*5 > whole {
		t.Errorf("%d bytes were sent for the change, %d for the whole snapshot", delta, whole)
	}
	fresh, err := client(t, plannerAddress(t), trimtab.Options{}).Plan(t.Context(), after, request())
	if err != nil {
		t.Fatal(err)
	}
	if answer.SnapshotVersion != fresh.SnapshotVersion {
		t.Error("the planner has another snapshot after the delta")
	}
	answer.Diagnostics, fresh.Diagnostics = nil, nil
	if !proto.Equal(answer, fresh) {
		t.Error("the plan over a delta is another one")
	}
}

func TestADeltaOfTheCallersOwnNeedsItsBase(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	before, after := build(t, cluster(5, 2)), build(t, cluster(6, 2))
	first, err := planner.Plan(t.Context(), before, request())
	if err != nil {
		t.Fatal(err)
	}
	delta, err := trimtab.Delta(before, after)
	if err != nil || delta == nil {
		t.Fatal(delta, err)
	}
	second, err := planner.PlanDelta(t.Context(), delta, first.SnapshotVersion, request())
	if err != nil {
		t.Fatal(err)
	}
	if second.Diagnostics.NodeCount != 6 {
		t.Errorf("the planner sees %d nodes", second.Diagnostics.NodeCount)
	}
	_, err = planner.PlanDelta(t.Context(), delta, "unknown", request())
	if trimtab.ReasonOf(err) != pb.ErrorReason_SNAPSHOT_BASE_UNKNOWN {
		t.Errorf("the error is %v", err)
	}
}

func TestCheckFitAnswersForEachPodInOrder(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	objects := cluster(3, 1)
	objects.Pods = append(objects.Pods, pod("waiting-b", ""), pod("waiting-a", ""))
	var pods []string
	err := planner.CheckFit(t.Context(), build(t, objects), request(), func(answer *pb.CheckFitResponse) error {
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

func TestAnErrorOfThePlannerSaysReasonTableAndRow(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	snapshot := build(t, cluster(2, 1))
	snapshot.Nodes[1].Name = snapshot.Nodes[0].Name
	_, err := planner.Plan(t.Context(), snapshot, request())
	if trimtab.ReasonOf(err) != pb.ErrorReason_SNAPSHOT_INVALID {
		t.Fatalf("the error is %v", err)
	}
	var own *trimtab.Error
	if !asError(err, &own) || own.Code != codes.InvalidArgument || own.Metadata["table"] != "nodes" {
		t.Errorf("the error is %+v", own)
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
	if _, err := planner.Plan(t.Context(), build(t, cluster(2, 1)), asked); err != nil {
		t.Error(err)
	}
	asked.RequiredFeatures = []string{"of-the-future"}
	_, err := planner.Plan(t.Context(), build(t, cluster(2, 1)), asked)
	if trimtab.ReasonOf(err) != pb.ErrorReason_FEATURE_UNKNOWN {
		t.Errorf("the error is %v", err)
	}
}

func TestASnapshotWithDevicesNeedsAPlannerThatKnowsThem(t *testing.T) {
	plain := build(t, cluster(2, 1))
	withDevices, withClaim := proto.CloneOf(plain), proto.CloneOf(plain)
	withDevices.Devices = &pb.Devices{Classes: []*pb.DeviceClass{{Name: "gpu"}}}
	withClaim.PodSpecs[0].Claims = []*pb.PodClaim{{Name: "gpu", Problem: "the claim is missing"}}
	if found := trimtab.SnapshotFeatures(plain); len(found) != 0 {
		t.Errorf("without devices, the features are %v", found)
	}
	for _, snapshot := range []*pb.ClusterSnapshot{withDevices, withClaim} {
		if found := trimtab.SnapshotFeatures(snapshot); len(found) != 1 || found[0] != "devices" {
			t.Errorf("the features are %v", found)
		}
		planner := client(t, plannerAddress(t), trimtab.Options{})
		if _, err := planner.Plan(t.Context(), snapshot, request()); err != nil {
			t.Error(err)
		}
	}
}

func TestInfoAndBalancing(t *testing.T) {
	planner := client(t, plannerAddress(t), trimtab.Options{})
	info, err := planner.Info(t.Context())
	if err != nil || len(info.Features) == 0 {
		t.Errorf("the planner's features are %v, %v", info.GetFeatures(), err)
	}
	split, err := planner.BalanceScaleUp(t.Context(), &pb.BalanceScaleUpRequest{
		NewNodes:   3,
		NodeGroups: []*pb.NodeGroupSize{{NodeGroup: "a", MaxSize: 9}, {NodeGroup: "b", MaxSize: 9, CurrentSize: 1}},
	})
	if err != nil || len(split.Splits) != 2 || split.Splits[0].NewSize != 2 {
		t.Errorf("the split is %v, %v", split, err)
	}
}
