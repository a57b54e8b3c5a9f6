package trimtab

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	maxResponseBytes = 256 << 20
	maxClusterBytes  = 253
)

// connections is the connection of a client, and a new one once certificate
// files have changed. Calls in progress end on theirs: the previous connection
// stays open until the next change. Files that cannot be used change nothing.
type connections struct {
	address  string
	security Security
	more     []grpc.DialOption

	mutex     sync.Mutex
	signature string
	last      *grpc.ClientConn
	previous  *grpc.ClientConn
	isClosed  bool
}

// current returns the connection for the next call.
func (c *connections) current() (*grpc.ClientConn, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return nil, fromRPC(status.Error(codes.Canceled, "the connection was closed"))
	}
	signature, err := c.security.signature()
	if c.last != nil && (err != nil || signature == c.signature) {
		return c.last, nil
	}
	if err != nil {
		return nil, err
	}
	made, err := c.dial()
	if err != nil {
		if c.last != nil {
			return c.last, nil
		}
		return nil, err
	}
	if c.previous != nil {
		_ = c.previous.Close()
	}
	c.previous, c.last, c.signature = c.last, made, signature
	return made, nil
}

// dial opens a connection, which connects on its first call. It reconnects
// quickly, for a planner on the same machine.
func (c *connections) dial() (*grpc.ClientConn, error) {
	options, err := c.security.credentials()
	if err != nil {
		return nil, err
	}
	options = append(options,
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
		}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second}),
		grpc.WithNoProxy(),
		// Retries are this client's own.
		grpc.WithDisableRetry(),
	)
	return grpc.NewClient(c.address, append(options, c.more...)...)
}

func (c *connections) close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isClosed = true
	var errs []error
	for _, one := range []*grpc.ClientConn{c.previous, c.last} {
		if one != nil {
			errs = append(errs, one.Close())
		}
	}
	c.previous, c.last = nil, nil
	return errors.Join(errs...)
}

// checkAddress refuses what is not "host:port", nor a name with a scheme, which
// gRPC checks itself.
func checkAddress(address string) error {
	for _, scheme := range []string{"dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "xds:", "passthrough:"} {
		if strings.HasPrefix(address, scheme) {
			return nil
		}
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil && host != "" {
		if _, err = net.LookupPort("tcp", port); err == nil && port != "" && port != "0" {
			return nil
		}
	}
	return fmt.Errorf("address %q is not host:port, such as 127.0.0.1:8080", address)
}

// clusterHeader returns the name of a cluster for load balancers, percent-encoded,
// cut at the length from which the planner refuses it.
func clusterHeader(name string) string {
	return strings.ReplaceAll(url.QueryEscape(name[:min(len(name), maxClusterBytes)]), "+", "%20")
}
