// Command device-oracle allocates devices with the real structured allocator of dynamic resource allocation.
//
// stdin: JSON documents (type Document), one after the other. stdout: a line of answers (type Answers) for each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("device class %q not found", name)
}

func emptyState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

// use counts a device as the scheduler's plugin does, which is not importable: pkg/scheduler/framework/plugins/
// dynamicresources/allocateddevices.go.
func use(state structured.AllocatedState, result *resourceapi.DeviceRequestAllocationResult, shares bool) {
	if ptr.Deref(result.AdminAccess, false) {
		return
	}
	id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
	if !shares || result.ShareID == nil {
		state.AllocatedDevices.Insert(id)
		return
	}
	state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
	if result.ConsumedCapacity != nil {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
	}
}

func claimAnswer(result *resourceapi.AllocationResult) ClaimAnswer {
	answer := ClaimAnswer{Devices: [][4]string{}, Nodes: result.NodeSelector}
	consumed, some := []map[string]string{}, false
	for i, one := range result.Devices.Results {
		answer.Devices = append(answer.Devices, [4]string{one.Request, one.Driver, one.Pool, one.Device})
		if ptr.Deref(one.AdminAccess, false) {
			answer.Admin = append(answer.Admin, i)
		}
		var amounts map[string]string
		if one.ShareID != nil {
			amounts, some = map[string]string{}, true
			for name, amount := range one.ConsumedCapacity {
				amounts[string(name)] = amount.String()
			}
		}
		consumed = append(consumed, amounts)
	}
	if some {
		answer.Consumed = consumed
	}
	return answer
}

func allocate(ctx context.Context, d *Document, answers *Answers) error {
	cache := cel.NewCache(100, celFeatures(d))
	var held []resourceapi.DeviceRequestAllocationResult
	for i := range d.Allocated {
		held = append(held, d.Allocated[i])
	}
	for _, claims := range d.Pods {
		// A state of its own for each pod, as in the scheduler.
		state := emptyState()
		for i := range held {
			use(state, &held[i], d.Features.ConsumableCapacity)
		}
		var tried []Answer
		for _, node := range d.Nodes {
			// One for each node: up to 1.36 what an allocator keeps of counters may depend on the nodes before.
			allocator, err := structured.NewAllocator(ctx, d.Features, state, classes(d.Classes), d.Slices, cache)
			if err != nil {
				return err
			}
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			results, err := allocator.Allocate(limited, node, claims)
			timeout := limited.Err() != nil
			cancel()
			answer := Answer{}
			switch {
			case timeout:
				answer.Timeout = true
			case errors.Is(err, structured.ErrFailedAllocationOnNode):
				answer.Invalid = true
			case err != nil:
				answer.Error = err.Error()
			}
			for i := range results {
				answer.Claims = append(answer.Claims, claimAnswer(&results[i]))
				held = append(held, results[i].Devices.Results...)
			}
			tried = append(tried, answer)
			if len(results) > 0 || answer.Error != "" || timeout {
				break
			}
		}
		answers.Pods = append(answers.Pods, tried)
	}
	return nil
}

func celFeatures(d *Document) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: d.Features.ConsumableCapacity,
		EnableListTypeAttributes: d.Features.ListTypeAttributes,
	}
}

func evaluate(ctx context.Context, d *Document, answers *Answers) {
	compiler := cel.GetCompiler(celFeatures(d))
	for _, expression := range d.Expressions {
		answer := ExpressionAnswer{}
		compiled := compiler.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
		if compiled.Error != nil {
			answer.Error = compiled.Error.Error()
			answers.Expressions = append(answers.Expressions, answer)
			continue
		}
		for _, one := range d.Devices {
			matches, details, err := compiled.DeviceMatches(ctx, cel.Device{
				Driver:                   one.Driver,
				AllowMultipleAllocations: one.Device.AllowMultipleAllocations,
				Attributes:               one.Device.Attributes,
				Capacity:                 one.Device.Capacity,
			})
			letter := "f"
			if matches {
				letter = "t"
			}
			text := ""
			if err != nil {
				letter, text = "e", err.Error()
			}
			cost := uint64(0)
			if details != nil {
				cost = ptr.Deref(details.ActualCost(), 0)
			}
			answer.Results += letter
			answer.Errors = append(answer.Errors, text)
			answer.Costs = append(answer.Costs, cost)
		}
		answers.Expressions = append(answers.Expressions, answer)
	}
}

func run(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(bufio.NewReaderSize(in, 1<<20)), json.NewEncoder(out)
	for {
		d := Document{}
		if err := decoder.Decode(&d); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for i := range d.Allocated {
			if d.Allocated[i].ShareID != nil && *d.Allocated[i].ShareID == "" {
				id := types.UID(fmt.Sprint(i))
				d.Allocated[i].ShareID = &id
			}
		}
		answers := Answers{Name: d.Name}
		if err := allocate(context.Background(), &d, &answers); err != nil {
			return err
		}
		if err := steps(context.Background(), &d, &answers); err != nil {
			return err
		}
		evaluate(context.Background(), &d, &answers)
		if err := encoder.Encode(answers); err != nil {
			return err
		}
	}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if err := run(os.Stdin, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
