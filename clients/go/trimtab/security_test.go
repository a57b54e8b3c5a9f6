package trimtab_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"trimtab.dev/clients/go/trimtab"
	pb "trimtab.dev/clients/go/trimtabv1"
)

// authority issues certificates for tests.
type authority struct {
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	out := &authority{folder: t.TempDir()}
	out.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &out.key.PublicKey, out.key)
	if err != nil {
		t.Fatal(err)
	}
	if out.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	out.write(t, "ca.crt", "CERTIFICATE", der)
	return out
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(a.folder, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

// issue writes NAME.crt and NAME.key.
func (a *authority) issue(t *testing.T, file, name string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, file+".crt", "CERTIFICATE", der)
	a.write(t, file+".key", "PRIVATE KEY", own)
}

// serveTLS serves a planner that asks for a certificate, and returns its address
// and a function that returns the names and tokens of its callers.
func (a *authority) serveTLS(t *testing.T) (string, func() [][2]string) {
	t.Helper()
	a.issue(t, "server", "server")
	own, err := tls.LoadX509KeyPair(a.path("server.crt"), a.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	config := &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	callers := &callersPlanner{}
	return serve(t, callers, grpc.Creds(credentials.NewTLS(config))), func() [][2]string { return callers.seen }
}

// callersPlanner remembers who calls.
type callersPlanner struct {
	pb.UnimplementedPlannerServer
	seen [][2]string
}

func (p *callersPlanner) GetInfo(ctx context.Context, _ *pb.GetPlannerInfoRequest) (*pb.GetPlannerInfoResponse, error) {
	from, _ := peer.FromContext(ctx)
	info := from.AuthInfo.(credentials.TLSInfo)
	token := ""
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md["authorization"]) > 0 {
		token = md["authorization"][0]
	}
	p.seen = append(p.seen, [2]string{info.State.PeerCertificates[0].Subject.CommonName, token})
	return &pb.GetPlannerInfoResponse{}, nil
}

func TestCertificatesAndTokensAreReadAgainWhenTheyChange(t *testing.T) {
	ca := newAuthority(t)
	address, callers := ca.serveTLS(t)
	ca.issue(t, "client", "first")
	if err := os.WriteFile(ca.path("token"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	planner := client(t, address, trimtab.Options{Security: trimtab.Security{
		CAFile: ca.path("ca.crt"), CertFile: ca.path("client.crt"), KeyFile: ca.path("client.key"), TokenFile: ca.path("token"),
	}})
	call := func() {
		t.Helper()
		if _, err := planner.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	call()
	ca.issue(t, "client", "second")
	if err := os.WriteFile(ca.path("token"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	call()
	// A certificate without its key: the last pair stays in use.
	if err := os.WriteFile(ca.path("client.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	call()
	want := [][2]string{{"first", "Bearer one"}, {"second", "Bearer two"}, {"second", "Bearer two"}}
	for i, one := range callers() {
		if one != want[i] {
			t.Errorf("caller %d is %v", i, one)
		}
	}
}

func TestAPlannerOfAnotherAuthorityIsRefused(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	address, _ := ca.serveTLS(t)
	ca.issue(t, "client", "caller")
	planner := client(t, address, trimtab.Options{
		Retry: trimtab.RetryPolicy{UnavailableCalls: 1},
		Security: trimtab.Security{
			CAFile: other.path("ca.crt"), CertFile: ca.path("client.crt"), KeyFile: ca.path("client.key"),
		},
	})
	if _, err := planner.Info(t.Context()); !trimtab.IsUnavailable(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	ca := newAuthority(t)
	for _, security := range []trimtab.Security{
		{CertFile: "a", KeyFile: "b"}, {ServerName: "a"}, {TokenFile: "a"},
		{CAFile: ca.path("ca.crt"), CertFile: "a"}, {CAFile: "absent"}, {CAFile: ca.path("ca.crt"), TokenFile: "absent"},
	} {
		if _, err := trimtab.NewClient("127.0.0.1:1", trimtab.Options{Security: security}); err == nil {
			t.Errorf("%+v is taken", security)
		}
	}
}
