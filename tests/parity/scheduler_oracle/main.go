// Command scheduler-oracle answers "does pod P fit node N, and if not, why" with the real
// kube-scheduler: the PreFilter and Filter plugins of the default profile (and the
// SchedulingGates plugin), each alone and all together.
//
// stdin: JSON documents (type Document). stdout: one line of answers for each (type Answers),
// or the document itself in mode normalize. stderr: a line of statistics for each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	kjson "sigs.k8s.io/json"
)

func (c *cluster) nodes(names []string) ([]fwk.NodeInfo, error) {
	if len(names) == 0 {
		return c.list, nil
	}
	var out []fwk.NodeInfo
	for _, name := range names {
		ni, err := c.Get(name)
		if err != nil {
			return nil, err
		}
		out = append(out, ni)
	}
	return out, nil
}

func matrix(ctx context.Context, d *Document, c *cluster, s *scheduler) ([]Answer, error) {
	var out []Answer
	for i := range d.Pending {
		a, _, err := s.ask(ctx, &d.Pending[i], c.list, false)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

func simulate(ctx context.Context, d *Document, c *cluster, s *scheduler) ([]Answer, error) {
	order, err := c.nodes(d.NodeOrder)
	if err != nil {
		return nil, err
	}
	var out []Answer
	for i := range d.Pending {
		a, node, err := s.ask(ctx, &d.Pending[i], order, true)
		if err != nil {
			return nil, err
		}
		if node != "" {
			c.place(&d.Pending[i], node)
		}
		a.Node = &node
		out = append(out, a)
	}
	return out, nil
}

func verify(ctx context.Context, d *Document, c *cluster, s *scheduler) ([]Answer, error) {
	byKey := map[string]int{}
	for i := range d.Pending {
		byKey[podKey(&d.Pending[i])] = i
	}
	var out []Answer
	for _, pl := range d.Placements {
		i, ok := byKey[pl.Pod]
		if !ok {
			return nil, fmt.Errorf("placements: no pending pod %q", pl.Pod)
		}
		nodes, err := c.nodes([]string{pl.Node})
		if err != nil {
			return nil, err
		}
		a, _, err := s.ask(ctx, &d.Pending[i], nodes, false)
		if err != nil {
			return nil, err
		}
		c.place(&d.Pending[i], pl.Node)
		node := pl.Node
		a.Node = &node
		out = append(out, a)
	}
	return out, nil
}

func selfcheck(ctx context.Context, p *prepared, c *cluster, s *scheduler) ([]Answer, error) {
	var out []Answer
	for _, pod := range p.running {
		home := pod.Spec.NodeName
		if _, ok := c.byName[home]; !ok {
			continue
		}
		c.without(home, p.running, pod)
		asked := pod.DeepCopy()
		asked.Spec.NodeName = ""
		a, _, err := s.ask(ctx, asked, c.list, false)
		if err != nil {
			return nil, err
		}
		a.Node = &home
		out = append(out, a)
		c.without(home, p.running, nil)
	}
	return out, nil
}

func answer(d *Document) (any, map[string]any, error) {
	start := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := map[string]bool{}
	for name := range d.FeatureGates {
		before[name] = utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(d.FeatureGates); err != nil {
		return nil, nil, err
	}
	defer utilfeature.DefaultMutableFeatureGate.SetFromMap(before)
	p, err := prepare(d)
	if err != nil {
		return nil, nil, err
	}
	if d.Mode == "normalize" {
		return d, map[string]any{"name": d.Name}, nil
	}
	c, orphans := newCluster(p.nodes, p.running)
	s, err := newScheduler(ctx, d, c)
	if err != nil {
		return nil, nil, err
	}
	out := Answers{Name: d.Name, Invalid: p.invalid}
	switch d.Mode {
	case "matrix":
		out.Answers, err = matrix(ctx, d, c, s)
	case "simulate":
		out.Answers, err = simulate(ctx, d, c, s)
	case "verify":
		out.Answers, err = verify(ctx, d, c, s)
	case "selfcheck":
		out.Answers, err = selfcheck(ctx, p, c, s)
	default:
		err = fmt.Errorf("mode: %q is not known", d.Mode)
	}
	stats := map[string]any{"name": d.Name, "nodes": len(p.nodes), "pods": len(p.running), "terminal": p.terminal,
		"orphans": orphans, "answers": len(out.Answers), "ms": time.Since(start).Milliseconds()}
	return out, stats, err
}

func run(in io.Reader, out *json.Encoder) error {
	dec := json.NewDecoder(in)
	for n := 0; ; n++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		var d Document
		strict, err := kjson.UnmarshalStrict(raw, &d)
		if err == nil && len(strict) > 0 {
			err = strict[0]
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		a, stats, err := answer(&d)
		if err != nil {
			return fmt.Errorf("document %s: %w", d.Name, err)
		}
		if err := out.Encode(a); err != nil {
			return err
		}
		line, _ := json.Marshal(stats)
		fmt.Fprintln(os.Stderr, string(line))
	}
}

func main() {
	flag.Parse()
	klog.LogToStderr(true)
	metrics.Register()
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	err := run(bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(out))
	out.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
