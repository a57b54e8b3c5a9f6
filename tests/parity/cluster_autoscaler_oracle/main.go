// Command cluster-autoscaler-oracle says which nodes the real Cluster Autoscaler would drain, and why not the others.
//
// It asks core/scaledown/planner, with the real drainability rules, eligibility checks, removal simulation and scheduler
// plugins, on upstream's test cloud provider. stdin: JSON documents (type Document). stdout: one line of answers for
// each (type Answers). stderr: a line of statistics for each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func answer(d *Document, runs int) (*Answers, map[string]any, error) {
	c := &Cluster{}
	for i, raw := range d.Items {
		if err := c.add(raw); err != nil {
			return nil, nil, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o, err := newOracle(ctx, d, c)
	if err != nil {
		return nil, nil, err
	}
	out := &Answers{Name: d.Name}
	ms := []float64{}
	for seed := range runs {
		one, err := o.ask(int64(seed))
		if err != nil {
			return nil, nil, err
		}
		out.Runs = append(out.Runs, one)
		ms = append(ms, one.Ms)
	}
	return out, map[string]any{"name": d.Name, "nodes": len(c.nodes), "pods": len(c.pods), "ms": ms}, nil
}

func run(in io.Reader, out *json.Encoder, runs int) error {
	dec := json.NewDecoder(in)
	for n := 0; ; n++ {
		d := &Document{}
		if err := dec.Decode(d); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		a, stats, err := answer(d, runs)
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
	runs := flag.Int("runs", 1, "loops to run on each document, all but the first with the nodes shuffled")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	err := run(bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(out), *runs)
	out.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
