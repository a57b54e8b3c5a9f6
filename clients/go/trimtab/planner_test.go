package trimtab_test

import (
	"os"
	"sync"
	"testing"

	"trimtab.dev/clients/go/internal/testplanner"
)

var planner struct {
	once    sync.Once
	address string
	kill    func()
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if planner.kill != nil {
		planner.kill()
	}
	os.Exit(code)
}

// plannerAddress returns the address of a real planner, started once for all
// tests. Without one the test is skipped, or fails (testplanner.Check).
func plannerAddress(t *testing.T) string {
	t.Helper()
	planner.once.Do(func() { planner.address, planner.kill, planner.err = testplanner.Run() })
	testplanner.Check(t, planner.err)
	return planner.address
}
