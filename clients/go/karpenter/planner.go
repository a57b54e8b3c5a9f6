package karpenter

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"trimtab.dev/clients/go/trimtabv1"
)

// Dial connects.
func Dial(given *Options) (Planner, error) {
	connection, err := grpc.NewClient(given.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &remote{trimtabv1.NewPlannerClient(connection), given}, nil
}

type remote struct {
	client trimtabv1.PlannerClient
	given  *Options
}

const partBytes = 1 << 20

func (r *remote) Plan(ctx context.Context, cluster *Cluster, now time.Time) (*Plan, error) {
	snapshot, err := snapshotOf(cluster)
	if err != nil {
		return nil, err
	}
	data, err := proto.Marshal(snapshot)
	if err != nil {
		return nil, err
	}
	request := requestOf(cluster, r.given.ClusterName, r.given.Settings.LeastSaving, now)
	request.SnapshotSizeBytes = int64(len(data))
	stream, err := r.client.Plan(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&trimtabv1.PlanRequestPart{Part: &trimtabv1.PlanRequestPart_Request{Request: request}})
	for at := int32(0); len(data) > 0; at++ {
		size := min(len(data), partBytes)
		_ = stream.Send(&trimtabv1.PlanRequestPart{Part: &trimtabv1.PlanRequestPart_Snapshot{Snapshot: &trimtabv1.SnapshotPart{Index: at, Data: data[:size]}}})
		data = data[size:]
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	return planOf(answer.GetReplacement()), nil
}
