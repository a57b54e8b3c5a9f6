package trimtab

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// errorDomain is the domain of the contract's errors.
const errorDomain = "trimtab.dev"

// Error is what a call failed with. Its text is for people; programs look at
// Code and Reason. errors.As finds it.
type Error struct {
	Code codes.Code
	// Reason is UNSPECIFIED when the peer sent none of ours: a proxy, or no
	// connection at all.
	Reason  pb.ErrorReason_Code
	Message string
	// Metadata is for programs: table, row, field, limit.
	Metadata map[string]string
	// RetryAfter is after how long the same call may succeed; 0 = not said.
	RetryAfter time.Duration

	status *status.Status
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s/%s: %s", e.Code, e.Reason, e.Message)
}

// GRPCStatus returns the status as it came, for code that reads statuses.
func (e *Error) GRPCStatus() *status.Status {
	return e.status
}

// IsUnavailable says whether a later call may succeed.
func IsUnavailable(err error) bool {
	var own *Error
	return errors.As(err, &own) && own.Code == codes.Unavailable
}

// IsOverloaded says whether a later call may succeed because the planner then
// has less to do.
func IsOverloaded(err error) bool {
	return ReasonOf(err) == pb.ErrorReason_OVERLOADED
}

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
