package trimtab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	chunkBytes         = 1 << 20
	defaultCallTimeout = 60 * time.Second
	sessionKey         = "trimtab-session"
	clusterKey         = "trimtab-cluster"
)

// Options are those of a Client. The zero value is a plain-text connection with
// the usual times.
type Options struct {
	Security Security
	Retry    RetryPolicy
	// CallTimeout is the deadline of a call whose context has none; 0 = 60 s. It
	// bounds the planner's simulation, and is therefore not small.
	CallTimeout time.Duration
	// DialOptions are added to the connection's own.
	DialOptions []grpc.DialOption
}

// Client is a client of one planner about one cluster. It sends the difference
// to the last snapshot that the planner confirmed where that is less, and only
// the version of a state that the planner gave. What the planner no longer has
// is sent again, so an answer never depends on earlier calls. All methods may be
// used at the same time; plans follow one after the other.
type Client struct {
	connections *connections
	options     Options
	session     string

	mutex sync.Mutex
	known session
}

// NewClient returns a client of the planner at "host:port". It connects on first
// use. The error is for an address or a file that cannot be used.
func NewClient(address string, options Options) (*Client, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	options.Retry = options.Retry.withDefaults()
	if options.CallTimeout == 0 {
		options.CallTimeout = defaultCallTimeout
	}
	connections := &connections{address: address, security: options.Security, more: options.DialOptions}
	if _, err := connections.current(); err != nil {
		return nil, err
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	return &Client{
		connections: connections, options: options, session: hex.EncodeToString(random[:]),
	}, nil
}

// Close closes the connection; calls in progress are cancelled.
func (c *Client) Close() error {
	return c.connections.close()
}

// WaitUntilServing waits until the planner's health service reports SERVING, or
// until the context ends.
func (c *Client) WaitUntilServing(ctx context.Context) error {
	for {
		connection, err := c.connections.current()
		if err != nil {
			return err
		}
		health := grpc_health_v1.NewHealthClient(connection)
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && answer.Status == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		if err != nil && status.Code(err) != codes.Unavailable {
			return fromRPC(err)
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = status.Error(codes.Unavailable, "the planner is not serving yet")
			}
			return fromRPC(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Info returns what the planner can do.
func (c *Client) Info(ctx context.Context) (*pb.GetPlannerInfoResponse, error) {
	var answer *pb.GetPlannerInfoResponse
	err := c.invoke(ctx, "", func(ctx context.Context, planner pb.PlannerClient) (err error) {
		answer, err = planner.GetInfo(ctx, &pb.GetPlannerInfoRequest{})
		return err
	})
	return answer, err
}

// BalanceScaleUp asks how to split new nodes between node groups.
func (c *Client) BalanceScaleUp(ctx context.Context, request *pb.BalanceScaleUpRequest) (*pb.BalanceScaleUpResponse, error) {
	var answer *pb.BalanceScaleUpResponse
	err := c.invoke(ctx, "", func(ctx context.Context, planner pb.PlannerClient) (err error) {
		answer, err = planner.BalanceScaleUp(ctx, request)
		return err
	})
	return answer, err
}

// Plan asks for a plan over a snapshot. The fields of the request that describe
// the snapshot are set in a copy. Do not change the snapshot afterwards: the
// next one is compared with it.
func (c *Client) Plan(ctx context.Context, snapshot *pb.ClusterSnapshot, request *pb.PlanRequest) (*pb.PlanResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var answer *pb.PlanResponse
	sent, err := c.exchange(snapshot, request, func(header *pb.PlanRequest, data []byte) (err error) {
		answer, err = c.plan(ctx, header, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, c.known.confirm(answer, sent)
}

// PlanDelta asks for a plan over a delta of the caller's own. The caller handles
// the reason SNAPSHOT_BASE_UNKNOWN.
func (c *Client) PlanDelta(
	ctx context.Context, delta *pb.SnapshotDelta, baseVersion string, request *pb.PlanRequest,
) (*pb.PlanResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	data, err := proto.Marshal(delta)
	if err != nil {
		return nil, err
	}
	header := proto.CloneOf(request)
	requireFeatures(header, delta.GetChanged())
	header.BaseVersion = baseVersion
	return c.plan(ctx, header, data)
}

// CheckFit asks which nodes each pod fits, and calls take with each answer, in
// the order of pods. An error of take ends the call and is returned. take must
// not use the client: plans wait until the call has ended.
func (c *Client) CheckFit(
	ctx context.Context, snapshot *pb.ClusterSnapshot, request *pb.PlanRequest, take func(*pb.CheckFitResponse) error,
) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, err := c.exchange(snapshot, request, func(header *pb.PlanRequest, data []byte) error {
		return c.checkFit(ctx, header, data, take)
	})
	return err
}

// invoke makes a call with a deadline and the call's metadata, and repeats it as
// the policy says.
func (c *Client) invoke(ctx context.Context, cluster string, call func(context.Context, pb.PlannerClient) error) error {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.CallTimeout)
		defer cancel()
	}
	ctx = metadata.AppendToOutgoingContext(ctx, sessionKey, c.session)
	if cluster != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, clusterKey, clusterHeader(cluster))
	}
	return withRetries(ctx, c.options.Retry, func() error {
		connection, err := c.connections.current()
		if err != nil {
			return err
		}
		return call(ctx, pb.NewPlannerClient(connection))
	})
}

func (c *Client) plan(ctx context.Context, header *pb.PlanRequest, data []byte) (*pb.PlanResponse, error) {
	var answer *pb.PlanResponse
	err := c.invoke(ctx, header.Cluster, func(ctx context.Context, planner pb.PlannerClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := planner.Plan(ctx)
		if err != nil {
			return err
		}
		if err := sendParts(stream.Send, header, data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// After io.EOF the planner has answered already; its error is here.
		answer, err = stream.CloseAndRecv()
		return err
	})
	return answer, err
}

func (c *Client) checkFit(
	ctx context.Context, header *pb.PlanRequest, data []byte, take func(*pb.CheckFitResponse) error,
) error {
	var refused error
	taken := 0
	err := c.invoke(ctx, header.Cluster, func(ctx context.Context, planner pb.PlannerClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := planner.CheckFit(ctx)
		if err != nil {
			return err
		}
		if err := sendParts(stream.Send, header, data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for seen := 0; ; seen++ {
			answer, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if seen < taken {
				continue // an earlier call has given it
			}
			if refused = take(answer); refused != nil {
				return nil
			}
			taken++
		}
	})
	return errors.Join(err, refused)
}

// sendParts sends a request as the contract streams it: the header, then the
// snapshot in pieces.
func sendParts(send func(*pb.PlanRequestPart) error, header *pb.PlanRequest, data []byte) error {
	header.SnapshotSizeBytes = int64(len(data))
	if err := send(&pb.PlanRequestPart{Part: &pb.PlanRequestPart_Request{Request: header}}); err != nil {
		return err
	}
	for index := int32(0); len(data) > 0; index++ {
		piece := data[:min(len(data), chunkBytes)]
		data = data[len(piece):]
		part := &pb.PlanRequestPart_Snapshot{Snapshot: &pb.SnapshotPart{Index: index, Data: piece}}
		if err := send(&pb.PlanRequestPart{Part: part}); err != nil {
			return err
		}
	}
	return nil
}
