package trimtab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// errorDomain is the domain of the contract's errors.
const errorDomain = "trimtab.dev"

// Error is what a call failed with. Its text is for people; programs look at Code and Reason. errors.As finds it.
type Error struct {
	Code codes.Code
	// Reason is UNSPECIFIED when the peer sent none of ours: a proxy, or no connection at all.
	Reason  pb.ErrorReason_Code
	Message string
	// Metadata is for programs: table, row, field, limit.
	Metadata map[string]string
	// RetryAfter is after how long the same call may succeed; 0 = not said.
	RetryAfter time.Duration

	status *status.Status
}

func (e *Error) Error() string { return fmt.Sprintf("%s/%s: %s", e.Code, e.Reason, e.Message) }

// GRPCStatus returns the status as it came, for code that reads statuses.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// IsUnavailable says whether a later call may succeed.
func IsUnavailable(err error) bool {
	var own *Error
	return errors.As(err, &own) && own.Code == codes.Unavailable
}

// IsOverloaded says whether a later call may succeed because the planner then has less to do.
func IsOverloaded(err error) bool { return ReasonOf(err) == pb.ErrorReason_OVERLOADED }

// ReasonOf returns the reason of an error; UNSPECIFIED for any other error.
func ReasonOf(err error) pb.ErrorReason_Code {
	var own *Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return pb.ErrorReason_UNSPECIFIED
}

// fromRPC converts an error of a gRPC call.
func fromRPC(err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	from := status.Convert(err)
	out := &Error{Code: from.Code(), Message: from.Message(), status: from}
	for _, detail := range from.Details() {
		switch one := detail.(type) {
		case *errdetails.ErrorInfo:
			if code, ok := pb.ErrorReason_Code_value[one.Reason]; ok && one.Domain == errorDomain {
				out.Reason, out.Metadata = pb.ErrorReason_Code(code), one.Metadata
			}
		case *errdetails.RetryInfo:
			out.RetryAfter = one.RetryDelay.AsDuration()
		}
	}
	return out
}

// RetryPolicy says how often a failed call is made again. All calls of the contract are idempotent.
type RetryPolicy struct {
	// UnavailableCalls are made in total while the planner is unavailable; 0 = 5, which bridges a restart of a second
	// or two. 1 = no repetition.
	UnavailableCalls int
	// OverloadedCalls are made in total while the planner is overloaded; 0 = 3.
	OverloadedCalls int
	// Total is how long after the first call another one may begin; 0 = 30 s.
	Total time.Duration
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	return RetryPolicy{cmp.Or(p.UnavailableCalls, 5), cmp.Or(p.OverloadedCalls, 3), cmp.Or(p.Total, 30*time.Second)}
}

// withRetries makes a call, and makes it again while the policy allows it. It ends with the context, and returns the
// call's last error then.
func withRetries(ctx context.Context, policy RetryPolicy, call func() error) error {
	begun := time.Now()
	for made := 1; ; made++ {
		err := fromRPC(call())
		if err == nil {
			return nil
		}
		pause, again := policy.pauseAfter(err, made)
		if !again || time.Since(begun) >= policy.Total {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// pauseAfter returns how long to wait before another call, between 0 and a bound that doubles with each call; false =
// there is none.
func (p RetryPolicy) pauseAfter(err error, made int) (time.Duration, bool) {
	first, longest, most := 100*time.Millisecond, 5*time.Second, p.UnavailableCalls
	switch {
	case IsOverloaded(err):
		first, longest, most = 500*time.Millisecond, 2*time.Second, p.OverloadedCalls
	case !IsUnavailable(err):
		return 0, false
	}
	return rand.N(min(first<<min(made-1, 16), longest) + 1), made < most
}
