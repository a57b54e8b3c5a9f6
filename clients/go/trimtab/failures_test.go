package trimtab_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"trimtab.dev/clients/go/trimtab"
	pb "trimtab.dev/clients/go/trimtabv1"
)

func asError(err error, own **trimtab.Error) bool { return errors.As(err, own) }

// failingPlanner answers calls with errors in turn, then with an empty plan. A
// real planner cannot be made to fail in these ways at will.
type failingPlanner struct {
	pb.UnimplementedPlannerServer

	mutex  sync.Mutex
	errors []error
	calls  []*pb.PlanRequest
	sizes  []int
	parts  [][]int
	meta   []metadata.MD
	wait   time.Duration
}

func (p *failingPlanner) Plan(stream grpc.ClientStreamingServer[pb.PlanRequestPart, pb.PlanResponse]) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var header *pb.PlanRequest
	size, parts := 0, []int{}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		parts = append(parts, proto.Size(part))
		if part.GetRequest() != nil {
			header = part.GetRequest()
		}
		for _, one := range part.GetObjects().GetPut() {
			size += len(one)
		}
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	p.calls, p.sizes, p.meta = append(p.calls, header), append(p.sizes, size), append(p.meta, md)
	p.parts = append(p.parts, parts)
	select {
	case <-time.After(p.wait):
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	if len(p.errors) > 0 {
		err := p.errors[0]
		p.errors = p.errors[1:]
		return err
	}
	return stream.SendAndClose(&pb.PlanResponse{SnapshotVersion: "v1"})
}

func failure(code codes.Code, reason pb.ErrorReason_Code) error {
	info := &errdetails.ErrorInfo{Domain: "trimtab.dev", Reason: reason.String(), Metadata: map[string]string{"limit": "3"}}
	out, err := status.New(code, "no").WithDetails(info, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		return err
	}
	return out.Err()
}

// serve returns the address of a server in this process.
func serve(t *testing.T, planner pb.PlannerServer, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	pb.RegisterPlannerServer(server, planner)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestObjectsAndDeletionsAreSentInPartsOfAMebibyte(t *testing.T) {
	server := &failingPlanner{}
	planner := client(t, serve(t, server), trimtab.Options{})
	for _, one := range []*objects{cluster(400, 20), cluster(1, 1)} {
		if _, err := planner.Plan(t.Context(), one.now(), request()); err != nil {
			t.Fatal(err)
		}
	}
	if len(server.parts) != 2 || len(server.parts[0]) < 4 || len(server.parts[1]) != 2 {
		t.Fatalf("the parts have %v bytes", server.parts)
	}
	for _, sizes := range server.parts {
		if slices.Max(sizes) > 1<<20+1<<14 {
			t.Errorf("the parts have %v bytes", sizes)
		}
	}
}

func repeated(err error, count int) []error {
	out := make([]error, count)
	for i := range out {
		out[i] = err
	}
	return out
}

func TestACallIsRepeatedWhileThePlannerIsUnavailableOrOverloaded(t *testing.T) {
	unavailable := failure(codes.Unavailable, pb.ErrorReason_NOT_READY)
	overloaded := failure(codes.ResourceExhausted, pb.ErrorReason_OVERLOADED)
	for _, one := range []struct {
		name   string
		errors []error
		reason pb.ErrorReason_Code
		calls  int
	}{
		{"unavailable four times", repeated(unavailable, 4), pb.ErrorReason_UNSPECIFIED, 5},
		{"unavailable for good", repeated(unavailable, 9), pb.ErrorReason_NOT_READY, 5},
		{"overloaded twice", repeated(overloaded, 2), pb.ErrorReason_UNSPECIFIED, 3},
		{"overloaded for good", repeated(overloaded, 9), pb.ErrorReason_OVERLOADED, 3},
		{"refused", repeated(failure(codes.InvalidArgument, pb.ErrorReason_REQUEST_INVALID), 9), pb.ErrorReason_REQUEST_INVALID, 1},
		{"too large", repeated(failure(codes.ResourceExhausted, pb.ErrorReason_SNAPSHOT_TOO_LARGE), 9), pb.ErrorReason_SNAPSHOT_TOO_LARGE, 1},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			server := &failingPlanner{errors: one.errors}
			_, err := client(t, serve(t, server), trimtab.Options{}).Plan(t.Context(), &trimtab.Cluster{}, request())
			if trimtab.ReasonOf(err) != one.reason || (err == nil) != (one.reason == pb.ErrorReason_UNSPECIFIED) {
				t.Errorf("the error is %v", err)
			}
			if len(server.calls) != one.calls {
				t.Errorf("%d calls", len(server.calls))
			}
			var own *trimtab.Error
			if errors.As(err, &own) && (own.Metadata["limit"] != "3" || own.RetryAfter != time.Second) {
				t.Errorf("the error has %+v", own)
			}
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	server := &failingPlanner{wait: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client(t, serve(t, server), trimtab.Options{}).Plan(ctx, &trimtab.Cluster{}, request())
	var own *trimtab.Error
	if !errors.As(err, &own) || own.Code != codes.DeadlineExceeded {
		t.Errorf("the error is %v", err)
	}
}

func TestNobodyListensIsAnErrorAfterTheCallsOfThePolicy(t *testing.T) {
	options := trimtab.Options{Retry: trimtab.RetryPolicy{UnavailableCalls: 2}}
	_, err := client(t, "127.0.0.1:1", options).Plan(t.Context(), &trimtab.Cluster{}, request())
	if !trimtab.IsUnavailable(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestTheWholeClusterIsSentWhereTheBaseIsUnknown(t *testing.T) {
	server := &failingPlanner{}
	planner := client(t, serve(t, server), trimtab.Options{})
	objects := cluster(400, 10)
	for range 2 {
		if _, err := planner.Plan(t.Context(), objects.now(), request()); err != nil {
			t.Fatal(err)
		}
	}
	server.errors = []error{failure(codes.FailedPrecondition, pb.ErrorReason_SNAPSHOT_BASE_UNKNOWN)}
	if _, err := planner.Plan(t.Context(), objects.now(), request()); err != nil {
		t.Fatal(err)
	}
	var bases []string
	for _, one := range server.calls {
		bases = append(bases, one.BaseVersion)
	}
	if len(bases) != 4 || bases[0] != "" || bases[1] != "v1" || bases[2] != "v1" || bases[3] != "" {
		t.Errorf("the bases are %q", bases)
	}
	if server.sizes[3] != server.sizes[0] || server.sizes[1] != 0 {
		t.Errorf("the sizes are %v", server.sizes)
	}
}

func TestCallsNameTheirSessionAndTheirCluster(t *testing.T) {
	server := &failingPlanner{}
	planner := client(t, serve(t, server), trimtab.Options{})
	for range 2 {
		if _, err := planner.Plan(t.Context(), &trimtab.Cluster{}, request()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := server.meta[0], server.meta[1]
	if len(first["trimtab-session"]) != 1 || first["trimtab-session"][0] != second["trimtab-session"][0] {
		t.Errorf("the sessions are %v, %v", first["trimtab-session"], second["trimtab-session"])
	}
	if first["trimtab-cluster"][0] != "test%20%C3%A9" {
		t.Errorf("the cluster is %v", first["trimtab-cluster"])
	}
}

func TestAddressesAreHostAndPort(t *testing.T) {
	for _, address := range []string{"", "host", "host:99999", ":80", "host:", "http://host:80"} {
		if _, err := trimtab.NewClient(address, trimtab.Options{}); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	for _, address := range []string{"127.0.0.1:8080", "[::1]:8080", "planner.trimtab:8080", "dns:///planner:80"} {
		if _, err := trimtab.NewClient(address, trimtab.Options{}); err != nil {
			t.Error(err)
		}
	}
}
