package trimtab_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"trimtab.dev/clients/go/trimtab"
	pb "trimtab.dev/clients/go/trimtabv1"
)

// A loop asks for a plan each round, and passes on the planner's state.
func ExampleClient_Plan() {
	client, err := trimtab.NewClient(os.Getenv("PLANNER"), trimtab.Options{Security: trimtab.SecurityFromEnvironment()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.WaitUntilServing(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var state *pb.PlanState
	for round := range 2 {
		now := cluster(4, 2).now() // what the informers have now
		plan, err := client.Plan(ctx, now, &pb.PlanRequest{
			Cluster:   "production",
			Decisions: []pb.Decision_Code{pb.Decision_SCALE_DOWN},
			Now:       timestamppb.New(time.Date(2026, 1, 2, round, 0, 0, 0, time.UTC)),
			State:     state,
		})
		if err != nil {
			fmt.Println(trimtab.ReasonOf(err), err)
			return
		}
		state = plan.State
		fmt.Println("unneeded:", len(plan.ScaleDown.Unneeded), "to be drained:", len(plan.ScaleDown.Drain))
	}
	// Prints:
	// unneeded: 3 to be drained: 0
	// unneeded: 3 to be drained: 3
}

func TestTheExampleOfALoopPrintsWhatItSays(t *testing.T) {
	t.Setenv("PLANNER", plannerAddress(t))
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = in
	ExampleClient_Plan()
	os.Stdout = stdout
	_ = in.Close()
	var printed [200]byte
	n, _ := out.Read(printed[:])
	want := "unneeded: 3 to be drained: 0\nunneeded: 3 to be drained: 3\n"
	if found := string(printed[:n]); found != want {
		t.Errorf("it prints %q", found)
	}
}
