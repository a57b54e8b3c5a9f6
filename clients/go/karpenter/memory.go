package karpenter

import (
	"time"
)

// memory is what disagreements and failures have taught. It is lost with the process: the first round after a restart
// tries again.
type memory struct {
	most int
	// size is how many nodes a plan may take: halved by each disagreement, doubled by each command.
	size    int
	refused map[string]time.Time
	kept    map[string]time.Time
	// failures in a row, and until when the planner is not asked after them.
	failures int
	until    time.Time
}

func newMemory(most int) *memory {
	return &memory{most: most, size: most, refused: map[string]time.Time{}, kept: map[string]time.Time{}}
}

// refuse remembers that a set of nodes was not possible, and which of its nodes cannot leave.
func (m *memory) refuse(nodes, because []string, until time.Time) {
	m.refused[setOf(nodes)] = until
	if len(nodes) == 1 {
		because = nodes
	}
	for _, name := range because {
		m.kept[name] = until
	}
	m.size = max(1, min(m.size, len(nodes))/2)
}

func (m *memory) hasRefused(nodes []string) bool { return !m.refused[setOf(nodes)].IsZero() }

// restricts returns whether plans are asked for less than without disagreements.
func (m *memory) restricts() bool { return m.size < m.most || len(m.kept) > 0 || len(m.refused) > 0 }

func (m *memory) succeed() { m.size = min(m.most, m.size*2) }

// forget drops what is over.
func (m *memory) forget(now time.Time) {
	for _, one := range []map[string]time.Time{m.refused, m.kept} {
		for name, until := range one {
			if !now.Before(until) {
				delete(one, name)
			}
		}
	}
	if len(m.refused) == 0 {
		m.size = m.most
	}
	refusedSets.Set(float64(len(m.refused)))
}

// keeps returns whether a node cannot leave.
func (m *memory) keeps(node string) bool { return !m.kept[node].IsZero() }

// fail remembers that the planner gave no plan: after the second time in a row it is not asked for longer and longer,
// up to five minutes.
func (m *memory) fail(now time.Time) {
	m.failures++
	if m.failures > 1 {
		m.until = now.Add(min(5*time.Minute, 10*time.Second<<min(m.failures-2, 5)))
	}
}

func (m *memory) isPaused(now time.Time) bool { return now.Before(m.until) }

func (m *memory) answered() { m.failures, m.until = 0, time.Time{} }
