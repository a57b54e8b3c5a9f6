package trimtab

import (
	"context"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how often a failed call is made again. All calls of the
// contract are idempotent.
type RetryPolicy struct {
	// UnavailableCalls are made in total while the planner is unavailable; 0 = 5,
	// which bridges a restart of a second or two. 1 = no repetition.
	UnavailableCalls int
	// OverloadedCalls are made in total while the planner is overloaded; 0 = 3.
	OverloadedCalls int
	// Total is how long after the first call another one may begin; 0 = 30 s.
	Total time.Duration
}

const (
	firstPause           = 100 * time.Millisecond
	longestPause         = 5 * time.Second
	firstOverloadedPause = 500 * time.Millisecond
	longestOverloaded    = 2 * time.Second
)

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.UnavailableCalls == 0 {
		p.UnavailableCalls = 5
	}
	if p.OverloadedCalls == 0 {
		p.OverloadedCalls = 3
	}
	if p.Total == 0 {
		p.Total = 30 * time.Second
	}
	return p
}

// withRetries makes a call, and makes it again while the policy allows it. It
// ends with the context, and returns the call's last error then.
func withRetries(ctx context.Context, policy RetryPolicy, call func() error) error {
	begun := time.Now()
	for made := 1; ; made++ {
		err := fromRPC(call())
		if err == nil {
			return nil
		}
		pause, again := policy.pauseAfter(err, made)
		if !again || time.Since(begun) >= policy.Total {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// pauseAfter returns how long to wait before another call; false = there is none.
func (p RetryPolicy) pauseAfter(err error, made int) (time.Duration, bool) {
	switch {
	case IsOverloaded(err):
		return randomPause(firstOverloadedPause, longestOverloaded, made), made < p.OverloadedCalls
	case IsUnavailable(err):
		return randomPause(firstPause, longestPause, made), made < p.UnavailableCalls
	}
	return 0, false
}

// randomPause returns a pause between 0 and a bound that doubles with each call.
func randomPause(first, longest time.Duration, made int) time.Duration {
	bound := longest
	if made < 16 {
		bound = min(first<<(made-1), longest)
	}
	return rand.N(bound + 1)
}
