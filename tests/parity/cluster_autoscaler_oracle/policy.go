package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Question is one line of Trimtab's protocol for external policies (docs/simulate.md): a document with the
// decisions that are asked for.
type Question struct {
	Document
	Protocol  int      `json:"protocol"`
	Decisions []string `json:"decisions"`
}

// Decision is the line that answers it.
type Decision struct {
	ScaleUp   *PolicyGrowth  `json:"scaleUp,omitempty"`
	ScaleDown *PolicyRemoval `json:"scaleDown,omitempty"`
	Error     string         `json:"error,omitempty"`
}

// PolicyGrowth says by how many nodes groups grow, and which pods that does not help.
type PolicyGrowth struct {
	Groups  map[string]int `json:"groups"`
	Pending []string       `json:"pending"`
}

// PolicyRemoval says which nodes are unneeded, which of them may go, and why others stay.
type PolicyRemoval struct {
	Unneeded    []string          `json:"unneeded"`
	Removable   []string          `json:"removable"`
	Unremovable map[string]string `json:"unremovable"`
}

// reasonNames are Trimtab's names of simulator.UnremovableReason, by number.
var reasonNames = []string{"", "SCALE_DOWN_DISABLED_ANNOTATION", "SCALE_DOWN_UNREADY_DISABLED", "NOT_AUTOSCALED",
	"NOT_UNNEEDED_LONG_ENOUGH", "NOT_UNREADY_LONG_ENOUGH", "NODE_GROUP_MIN_SIZE_REACHED",
	"NODE_GROUP_MAX_DELETION_COUNT_REACHED", "ATOMIC_SCALE_DOWN_FAILED", "MINIMAL_RESOURCE_LIMIT_EXCEEDED",
	"CURRENTLY_BEING_DELETED", "NOT_UNDERUTILIZED", "NOT_UNNEEDED_OTHER_REASON", "RECENTLY_UNREMOVABLE",
	"NO_PLACE_TO_MOVE_PODS", "BLOCKED_BY_POD", "UNEXPECTED_ERROR", "NO_NODE_INFO", "BLOCKED_BY_ON_COMPLETION_POD"}

// decide answers one question; each decision has a cluster of its own, as upstream changes objects.
func decide(line []byte) (*Decision, error) {
	out := &Decision{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ask := func() (*Question, *oracle, error) {
		q, c := &Question{}, &Cluster{}
		if err := json.Unmarshal(line, q); err != nil {
			return nil, nil, err
		}
		if q.Protocol != 1 {
			return nil, nil, fmt.Errorf("protocol %d is not known, 1 is", q.Protocol)
		}
		for i, raw := range q.Items {
			if err := c.add(raw); err != nil {
				return nil, nil, fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		o, err := newOracle(ctx, &q.Document, c)
		return q, o, err
	}
	q, o, err := ask()
	if err != nil {
		return nil, err
	}
	if slices.Contains(q.Decisions, "scale-up") {
		grown, err := o.grow(ctx, 0)
		if err != nil {
			return nil, err
		}
		out.ScaleUp = &PolicyGrowth{Groups: map[string]int{}, Pending: append([]string{}, grown.Pending...)}
		for group, count := range grown.Groups {
			if count > 0 {
				out.ScaleUp.Groups[group] = count
			}
		}
	}
	if slices.Contains(q.Decisions, "scale-down") {
		if _, o, err = ask(); err != nil {
			return nil, err
		}
		answer, err := o.ask(0)
		if err != nil {
			return nil, err
		}
		reasons := map[string]string{}
		for node, reason := range answer.Unremovable {
			if reason.Reason > 0 && reason.Reason < len(reasonNames) {
				reasons[node] = reasonNames[reason.Reason]
			}
		}
		out.ScaleDown = &PolicyRemoval{append([]string{}, answer.Unneeded...), slices.Concat(answer.Empty, answer.Drain), reasons}
	}
	return out, nil
}

// serve answers questions, a line each, until there are no more.
func serve(in *bufio.Reader, out *bufio.Writer) error {
	encoder := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			answer, err := decide(line)
			if err != nil {
				answer = &Decision{Error: err.Error()}
			}
			if err := encoder.Encode(answer); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
