// Package testplanner runs a real planner for tests.
package testplanner

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trimtab.dev/clients/go/trimtab"
)

// Start runs a planner until the test ends, and returns its address once it serves, and what kills it before. Without
// a planner the test is skipped, or fails where TRIMTAB_REQUIRE_PLANNER is set. TRIMTAB_PYTHON names the interpreter
// that has one.
func Start(t testing.TB) (address string, kill func()) {
	t.Helper()
	python := os.Getenv("TRIMTAB_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import trimtab.planner.__main__").CombinedOutput(); err != nil {
		if os.Getenv("TRIMTAB_REQUIRE_PLANNER") != "" {
			t.Fatalf("%s has no trimtab.planner: %s", python, out)
		}
		t.Skip("NOT TESTED, there is no planner here; set TRIMTAB_PYTHON")
	}
	file := filepath.Join(t.TempDir(), "address")
	process := exec.Command(python, "-m", "trimtab.planner", "--address-file="+file)
	process.Stderr = os.Stderr
	process.Env = append(os.Environ(), "TRIMTAB_PLANNER_LOG_LEVEL=error")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() { _ = process.Process.Kill(); _ = process.Wait() }
	t.Cleanup(kill)
	// Compiling its kernels takes a minute or more the first time.
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	for address == "" {
		if data, err := os.ReadFile(file); err == nil {
			address = strings.TrimSpace(string(data))
		}
		if ctx.Err() != nil {
			t.Fatal("the planner does not listen")
		}
		time.Sleep(20 * time.Millisecond)
	}
	client, err := trimtab.NewClient(address, trimtab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.WaitUntilServing(ctx); err != nil {
		t.Fatal(err)
	}
	return address, kill
}
