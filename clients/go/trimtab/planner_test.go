package trimtab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trimtab.dev/clients/go/trimtab"
)

var planner struct {
	once    sync.Once
	address string
	problem string
	stop    func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if planner.stop != nil {
		planner.stop()
	}
	os.Exit(code)
}

// plannerAddress returns the address of a real planner, started once for all
// tests. Without Python and the planner the test is skipped, or fails where
// TRIMTAB_REQUIRE_PLANNER is set.
func plannerAddress(t *testing.T) string {
	t.Helper()
	planner.once.Do(startPlanner)
	if planner.problem != "" && os.Getenv("TRIMTAB_REQUIRE_PLANNER") != "" {
		t.Fatal(planner.problem)
	}
	if planner.problem != "" {
		t.Skip("NOT TESTED, there is no planner here: " + planner.problem)
	}
	return planner.address
}

func startPlanner() {
	python := os.Getenv("TRIMTAB_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import trimtab.planner.__main__").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		planner.problem = python + " has no trimtab.planner (" + lines[len(lines)-1] + "); set TRIMTAB_PYTHON"
		return
	}
	folder, err := os.MkdirTemp("", "planner")
	if err != nil {
		planner.problem = err.Error()
		return
	}
	file := filepath.Join(folder, "address")
	process := exec.Command(python, "-m", "trimtab.planner", "--address-file="+file)
	process.Stderr = os.Stderr
	process.Env = append(os.Environ(), "TRIMTAB_PLANNER_LOG_LEVEL=error")
	if err := process.Start(); err != nil {
		planner.problem = err.Error()
		return
	}
	planner.stop = func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		_ = os.RemoveAll(folder)
	}
	planner.address, planner.problem = awaitPlanner(file)
}

// awaitPlanner returns the address of a planner once it serves. Compiling its
// kernels takes a minute or more the first time.
func awaitPlanner(file string) (address, problem string) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	for {
		if data, err := os.ReadFile(file); err == nil {
			address = strings.TrimSpace(string(data))
			break
		}
		if ctx.Err() != nil {
			return "", "it does not listen"
		}
		time.Sleep(20 * time.Millisecond)
	}
	client, err := trimtab.NewClient(address, trimtab.Options{})
	if err != nil {
		return "", err.Error()
	}
	defer client.Close()
	if err := client.WaitUntilServing(ctx); err != nil {
		return "", err.Error()
	}
	return address, ""
}
