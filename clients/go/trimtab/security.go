package trimtab

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	maxResponseBytes = 256 << 20
	maxClusterBytes  = 253
)

// Security says how a connection is protected. The zero value is plain text. Files are read again when they change:
// certificates for the next call, which then opens a new connection, the token for each call.
type Security struct {
	// CAFile has the CAs of the planner, PEM. Without it the connection is plain text, and nothing else may be set.
	CAFile string
	// CertFile and KeyFile are our certificate and key, PEM, for a planner that asks for one.
	CertFile, KeyFile string
	// ServerName is the name that the planner's certificate must have, if it is not the host of its address.
	ServerName string
	// TokenFile has a bearer token, such as that of a ServiceAccount. It is sent only over TLS.
	TokenFile string
}

// SecurityFromEnvironment returns the settings in the variables that all of Trimtab's clients read.
func SecurityFromEnvironment() Security {
	return Security{
		CAFile: os.Getenv("TRIMTAB_TLS_CA"), CertFile: os.Getenv("TRIMTAB_TLS_CERT"), KeyFile: os.Getenv("TRIMTAB_TLS_KEY"),
		ServerName: os.Getenv("TRIMTAB_TLS_SERVER_NAME"), TokenFile: os.Getenv("TRIMTAB_TOKEN_FILE"),
	}
}

// credentials returns the options that protect a connection, of the files as they are now, and a text that differs once
// a certificate file has changed.
func (s Security) credentials() ([]grpc.DialOption, string, error) {
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return nil, "", errors.New("CertFile and KeyFile belong together; give both")
	case s.CAFile == "" && (s.CertFile != "" || s.ServerName != "" || s.TokenFile != ""):
		return nil, "", errors.New("certificates, server name and token need CAFile: without it the connection is in plain text")
	case s.CAFile == "":
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, "", nil
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, "", err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: s.ServerName}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, "", fmt.Errorf("%s holds no CA certificate", s.CAFile)
	}
	signature := sha256.New()
	signature.Write(pem)
	if s.CertFile != "" {
		own, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, "", fmt.Errorf("%s and %s are not a certificate and its key: %w", s.CertFile, s.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{own}
		for _, one := range own.Certificate {
			signature.Write(one)
		}
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if s.TokenFile != "" {
		if _, err := tokenFile(s.TokenFile).GetRequestMetadata(context.Background()); err != nil {
			return nil, "", err
		}
		options = append(options, grpc.WithPerRPCCredentials(tokenFile(s.TokenFile)))
	}
	return options, string(signature.Sum(nil)), nil
}

// tokenFile sends a file's current token with each call: Kubernetes renews it in place.
type tokenFile string

func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	data, err := os.ReadFile(string(t))
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(data))}, err
}

func (t tokenFile) RequireTransportSecurity() bool { return true }

// connections is the connection of a client, and a new one once certificate files have changed. Calls in progress end on
// theirs: the previous connection stays open until the next change. Files that cannot be used change nothing.
type connections struct {
	address  string
	security Security
	more     []grpc.DialOption

	mutex          sync.Mutex
	signature      string
	last, previous *grpc.ClientConn
	isClosed       bool
}

// current returns the connection for the next call. It connects on its first call, and reconnects quickly, for a planner
// on the same machine.
func (c *connections) current() (*grpc.ClientConn, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return nil, fromRPC(status.Error(codes.Canceled, "the connection was closed"))
	}
	options, signature, err := c.security.credentials()
	if c.last != nil && (err != nil || signature == c.signature) {
		return c.last, nil
	}
	if err != nil {
		return nil, err
	}
	pauses := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	options = append(options,
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second}),
		grpc.WithNoProxy(), grpc.WithDisableRetry(), // retries are this client's own
	)
	made, err := grpc.NewClient(c.address, append(options, c.more...)...)
	if err != nil {
		return nil, err
	}
	if c.previous != nil {
		_ = c.previous.Close()
	}
	c.previous, c.last, c.signature = c.last, made, signature
	return made, nil
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

// checkAddress refuses what is not "host:port", nor a name with a scheme, which gRPC checks itself.
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

// clusterHeader returns the name of a cluster for load balancers, percent-encoded, cut at the length from which the
// planner refuses it.
func clusterHeader(name string) string {
	return strings.ReplaceAll(url.QueryEscape(name[:min(len(name), maxClusterBytes)]), "+", "%20")
}
