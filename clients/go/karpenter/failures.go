package karpenter

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errPaused = errors.New("the planner is not asked for a while, after failures")

// resultOf names why there is no plan.
func resultOf(err error) string {
	switch code := status.Code(err); {
	case errors.Is(err, errPaused):
		return paused
	case errors.Is(err, context.DeadlineExceeded), code == codes.DeadlineExceeded:
		return slow
	case code == codes.Unauthenticated, code == codes.PermissionDenied, isOfCertificates(err):
		return denied
	case code == codes.Unavailable:
		return away
	}
	return failed
}

// isOfCertificates returns whether a connection failed because one side does not trust the other.
func isOfCertificates(err error) bool {
	text := err.Error()
	return strings.Contains(text, "x509:") || strings.Contains(text, "tls:") || strings.Contains(text, "authentication handshake")
}
