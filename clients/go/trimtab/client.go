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

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	defaultCallTimeout = 60 * time.Second
	sessionKey         = "trimtab-session"
	clusterKey         = "trimtab-cluster"
)

// Options are those of a Client. The zero value is a plain-text connection with the usual times.
type Options struct {
	Security Security
	Retry    RetryPolicy
	// CallTimeout is the deadline of a call whose context has none; 0 = 60 s. It bounds the planner's simulation, and is
	// therefore not small.
	CallTimeout time.Duration
	// DialOptions are added to the connection's own.
	DialOptions []grpc.DialOption
}

// Client is a client of one planner about one cluster. It sends what has changed since the last answer, and everything
// to a planner that lacks the rest, so an answer never depends on earlier calls. All methods may be used at the same
// time; plans follow one after the other.
type Client struct {
	connections *connections
	options     Options
	id          string

	mutex sync.Mutex
	known session
}

// NewClient returns a client of the planner at "host:port". It connects on first use. The error is for an address or a
// file that cannot be used.
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
	return &Client{connections: connections, options: options, id: hex.EncodeToString(random[:])}, nil
}

// Close closes the connection; calls in progress are cancelled.
func (c *Client) Close() error { return c.connections.close() }

// WaitUntilServing waits until the planner's health service reports SERVING, or until the context ends.
func (c *Client) WaitUntilServing(ctx context.Context) error {
	for {
		connection, err := c.connections.current()
		if err != nil {
			return err
		}
		answer, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
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
func (c *Client) Info(ctx context.Context) (answer *pb.GetPlannerInfoResponse, err error) {
	err = c.invoke(ctx, "", func(ctx context.Context, planner pb.PlannerClient) (err error) {
		answer, err = planner.GetInfo(ctx, &pb.GetPlannerInfoRequest{})
		return err
	})
	return answer, err
}

// Plan asks for a plan over a cluster. The request's base version and the features that its settings need are set in a
// copy.
func (c *Client) Plan(ctx context.Context, cluster *Cluster, request *pb.PlanRequest) (answer *pb.PlanResponse, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	sent, err := c.exchange(ctx, cluster, request, func(ctx context.Context, planner pb.PlannerClient, send sender) error {
		stream, err := planner.Plan(ctx)
		if err != nil {
			return err
		}
		if err := send(stream.Send); err != nil {
			return err
		}
		answer, err = stream.CloseAndRecv()
		return err
	})
	if err != nil {
		return nil, err
	}
	c.known = sent.next
	c.known.base = answer.SnapshotVersion
	return answer, nil
}

// CheckFit asks which nodes each pod fits, and calls take with each answer, in the order of pods. An error of take ends
// the call and is returned. take must not use the client: plans wait until the call has ended.
func (c *Client) CheckFit(ctx context.Context, cluster *Cluster, request *pb.PlanRequest, take func(*pb.CheckFitResponse) error) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var refused error
	taken := 0
	_, err := c.exchange(ctx, cluster, request, func(ctx context.Context, planner pb.PlannerClient, send sender) error {
		stream, err := planner.CheckFit(ctx)
		if err != nil {
			return err
		}
		if err := send(stream.Send); err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for seen := 0; refused == nil; seen++ {
			answer, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if seen == taken { // an earlier call has given those before
				refused = take(answer)
				taken++
			}
		}
		return nil
	})
	return errors.Join(err, refused)
}

// sender sends a request through a stream.
type sender func(stream func(*pb.PlanRequestPart) error) error

// exchange makes a call with what has changed, and with all of the cluster if the planner lacks the rest.
func (c *Client) exchange(
	ctx context.Context, cluster *Cluster, request *pb.PlanRequest, call func(context.Context, pb.PlannerClient, sender) error,
) (*changes, error) {
	header := headerOf(request)
	for {
		sent, err := c.known.changesTo(cluster, header.Settings)
		if err != nil {
			return nil, err
		}
		header.BaseVersion = sent.base
		first := &pb.PlanRequestPart{Part: &pb.PlanRequestPart_Request{Request: header}, ActuatorStatus: cluster.Status}
		send := func(stream func(*pb.PlanRequestPart) error) error {
			err := errors.Join(stream(first), sent.send(stream))
			if errors.Is(err, io.EOF) {
				return nil // the planner has answered already; its error comes with the answer
			}
			return err
		}
		err = c.invoke(ctx, header.Cluster, func(ctx context.Context, planner pb.PlannerClient) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return call(ctx, planner, send)
		})
		if err == nil || sent.base == "" || ReasonOf(err) != pb.ErrorReason_SNAPSHOT_BASE_UNKNOWN {
			return sent, err
		}
		c.known = session{}
	}
}

// invoke makes a call with a deadline and the call's metadata, and repeats it as the policy says.
func (c *Client) invoke(ctx context.Context, cluster string, call func(context.Context, pb.PlannerClient) error) error {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.CallTimeout)
		defer cancel()
	}
	ctx = metadata.AppendToOutgoingContext(ctx, sessionKey, c.id)
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
