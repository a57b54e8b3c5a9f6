package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Step is a pod that comes after others have left.
type Step struct {
	Pod string `json:"pod"`
	// Claims of the pod by name, its own ones and those that it shares.
	Claims []string `json:"claims"`
	// Leaves are pods that leave before it comes.
	Leaves []string `json:"leaves,omitempty"`
}

// sequence is what is known while pods come and go.
type sequence struct {
	d     *Document
	cache *cel.Cache
	claim map[string]*resourceapi.ResourceClaim
	// given by claim; users of each, by pod.
	given map[string]*resourceapi.AllocationResult
	users map[string][]string
}

// steps lets pods come and go, as the scheduler's plugin and the controller of claims do, which are not importable:
// pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (Filter: a claim with devices lets its pods go
// where its node selector matches; what else a pod claims is allocated) and pkg/controller/resourceclaim/controller.go
// (a claim whose last pod has left loses its devices; one that a PodGroup uses keeps them).
func steps(ctx context.Context, d *Document, answers *Answers) error {
	s := &sequence{d, cel.NewCache(100, celFeatures(d)), map[string]*resourceapi.ResourceClaim{},
		map[string]*resourceapi.AllocationResult{}, map[string][]string{}}
	for _, claim := range d.Claims {
		s.claim[claim.Name] = claim
	}
	for _, step := range d.Steps {
		for _, pod := range step.Leaves {
			s.leave(pod)
		}
		tried, err := s.come(ctx, step)
		if err != nil {
			return err
		}
		answers.Steps = append(answers.Steps, tried)
	}
	return nil
}

func (s *sequence) leave(pod string) {
	for name, users := range s.users {
		left := slices.DeleteFunc(slices.Clone(users), func(one string) bool { return one == pod })
		s.users[name] = left
		if len(left) == 0 && !slices.Contains(s.d.Kept, name) {
			delete(s.given, name)
		}
	}
}

func (s *sequence) come(ctx context.Context, step Step) ([]Answer, error) {
	var wanted []*resourceapi.ResourceClaim
	var names, had []string
	for _, name := range step.Claims {
		if s.given[name] != nil {
			had = append(had, name)
			continue
		}
		names, wanted = append(names, name), append(wanted, s.claim[name])
	}
	tried := []Answer{}
	for _, node := range s.d.Nodes {
		answer, results, err := s.try(ctx, node, wanted, had)
		if err != nil {
			return nil, err
		}
		tried = append(tried, answer)
		if answer.Error != "" || answer.Timeout {
			return tried, nil
		}
		if answer.Elsewhere || len(results) < len(wanted) {
			continue
		}
		for i := range results {
			s.given[names[i]] = &results[i]
		}
		for _, name := range step.Claims {
			s.users[name] = append(s.users[name], step.Pod)
		}
		tried[len(tried)-1].Placed = true
		return tried, nil
	}
	return tried, nil
}

// try returns what a node answers.
func (s *sequence) try(ctx context.Context, node *v1.Node, wanted []*resourceapi.ResourceClaim, had []string) (Answer, []resourceapi.AllocationResult, error) {
	answer := Answer{}
	for _, name := range had {
		if selector := s.given[name].NodeSelector; selector != nil {
			matcher, err := nodeaffinity.NewNodeSelector(selector)
			if err != nil {
				return answer, nil, err
			}
			answer.Elsewhere = answer.Elsewhere || !matcher.Match(node)
		}
	}
	if len(wanted) == 0 {
		return answer, nil, nil
	}
	state := emptyState()
	for i := range s.d.Allocated {
		use(state, &s.d.Allocated[i], s.d.Features.ConsumableCapacity)
	}
	for _, result := range s.given {
		for i := range result.Devices.Results {
			use(state, &result.Devices.Results[i], s.d.Features.ConsumableCapacity)
		}
	}
	allocator, err := structured.NewAllocator(ctx, s.d.Features, state, classes(s.d.Classes), s.d.Slices, s.cache)
	if err != nil {
		return answer, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	results, err := allocator.Allocate(limited, node, wanted)
	switch {
	case limited.Err() != nil:
		answer.Timeout = true
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		answer.Invalid = true
	case err != nil:
		answer.Error = err.Error()
	}
	if len(results) > 0 && len(results) != len(wanted) {
		return answer, nil, fmt.Errorf("%d of %d claims have devices", len(results), len(wanted))
	}
	for i := range results {
		answer.Claims = append(answer.Claims, claimAnswer(&results[i]))
	}
	return answer, results, nil
}
