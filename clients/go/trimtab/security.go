package trimtab

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Security says how a connection is protected. The zero value is plain text.
// Files are read again when they change: certificates for the next call, which
// then opens a new connection, the token for each call.
type Security struct {
	// CAFile has the CAs of the planner, PEM. Without it the connection is plain
	// text, and nothing else may be set.
	CAFile string
	// CertFile and KeyFile are our certificate and key, PEM, for a planner that
	// asks for one.
	CertFile, KeyFile string
	// ServerName is the name that the planner's certificate must have, if it is
	// not the host of its address.
	ServerName string
	// TokenFile has a bearer token, such as that of a ServiceAccount. It is sent
	// only over TLS.
	TokenFile string
}

// SecurityFromEnvironment returns the settings in the variables that all of
// Trimtab's clients read: TRIMTAB_TLS_CA, TRIMTAB_TLS_CERT, TRIMTAB_TLS_KEY,
// TRIMTAB_TLS_SERVER_NAME, TRIMTAB_TOKEN_FILE.
func SecurityFromEnvironment() Security {
	return Security{
		CAFile: os.Getenv("TRIMTAB_TLS_CA"), CertFile: os.Getenv("TRIMTAB_TLS_CERT"),
		KeyFile: os.Getenv("TRIMTAB_TLS_KEY"), ServerName: os.Getenv("TRIMTAB_TLS_SERVER_NAME"),
		TokenFile: os.Getenv("TRIMTAB_TOKEN_FILE"),
	}
}

func (s Security) check() error {
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("CertFile and KeyFile belong together; give both")
	}
	if s.CAFile == "" && (s.CertFile != "" || s.ServerName != "" || s.TokenFile != "") {
		return errors.New("certificates, server name and token need CAFile: without it the connection is in plain text")
	}
	return nil
}

// credentials returns the options that protect a connection, of the files as
// they are now.
func (s Security) credentials() ([]grpc.DialOption, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.CAFile == "" {
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	config, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if s.TokenFile != "" {
		token := tokenFile(s.TokenFile)
		if _, err := token.GetRequestMetadata(context.Background()); err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	return options, nil
}

// signature returns a text that differs once a certificate file has changed.
func (s Security) signature() (string, error) {
	var out strings.Builder
	for _, path := range []string{s.CAFile, s.CertFile, s.KeyFile} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%x\n", sha256.Sum256(data))
	}
	return out.String(), nil
}

func (s Security) tlsConfig() (*tls.Config, error) {
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: s.ServerName}
	if !out.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no CA certificate", s.CAFile)
	}
	if s.CertFile != "" {
		own, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s and %s are not a certificate and its key: %w", s.CertFile, s.KeyFile, err)
		}
		out.Certificates = []tls.Certificate{own}
	}
	return out, nil
}

// tokenFile sends a file's current token with each call: Kubernetes renews it in
// place.
type tokenFile string

func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	data, err := os.ReadFile(string(t))
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(data))}, nil
}

func (t tokenFile) RequireTransportSecurity() bool {
	return true
}
