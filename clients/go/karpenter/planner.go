package karpenter

import (
	"context"
	"errors"
	"time"
)

// Dial connects.
func Dial(given *Options) (Planner, error) { return nobody{}, nil }

type nobody struct{}

func (nobody) Plan(context.Context, *Cluster, time.Time) (*Plan, error) {
	return nil, errors.New("not there")
}
