// Package testplanner runs a real planner for tests.
package testplanner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trimtab.dev/clients/go/trimtab"
)

// errAbsent says that there is no planner to run.
var errAbsent = errors.New("there is no planner here; set TRIMTAB_PYTHON")

// Start runs a planner until the test ends, and returns its address once it serves, and what kills it before. Without
// a planner the test is skipped, or fails (Check).
func Start(t testing.TB) (address string, kill func()) {
	t.Helper()
	address, kill, err := Run()
	Check(t, err)
	t.Cleanup(kill)
	return address, kill
}

// Check ends a test whose planner could not be run: it is skipped where there is none, unless TRIMTAB_REQUIRE_PLANNER
// is set, and fails otherwise.
func Check(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errAbsent) && os.Getenv("TRIMTAB_REQUIRE_PLANNER") == "":
		t.Skip("NOT TESTED, " + err.Error())
	default:
		t.Fatal(err)
	}
}

// Run runs a planner, and returns its address once it serves, and what kills it. TRIMTAB_PYTHON names the interpreter
// that has one.
func Run() (address string, kill func(), err error) {
	python := os.Getenv("TRIMTAB_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import trimtab.planner.__main__").CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("%w: %s has no trimtab.planner: %s", errAbsent, python, out)
	}
	folder, err := os.MkdirTemp("", "planner")
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(folder, "address")
	process := exec.Command(python, "-m", "trimtab.planner", "--address-file="+file)
	process.Stderr = os.Stderr
	process.Env = append(os.Environ(), "TRIMTAB_PLANNER_LOG_LEVEL=error")
	if err := process.Start(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	kill = func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		_ = os.RemoveAll(folder)
	}
	if address, err = await(file); err != nil {
		kill()
		return "", nil, err
	}
	return address, kill, nil
}

// await returns the address of a planner once it serves. Compiling its kernels takes a minute or more the first time.
func await(file string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	address := ""
	for address == "" {
		if data, err := os.ReadFile(file); err == nil {
			address = strings.TrimSpace(string(data))
		}
		if ctx.Err() != nil {
			return "", errors.New("the planner does not listen")
		}
		time.Sleep(20 * time.Millisecond)
	}
	client, err := trimtab.NewClient(address, trimtab.Options{})
	if err != nil {
		return "", err
	}
	defer client.Close()
	return address, client.WaitUntilServing(ctx)
}
