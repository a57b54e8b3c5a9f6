package listers_test

import (
	"context"
	"log"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtab/listers"
	"trimtab.dev/clients/go/trimtabv1"
)

// Logs the nodes of a cluster that can go, once a minute. A planner runs beside the program
// (trimtab-planner --address 127.0.0.1:8085); the node group is an example.
func Example() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	from, err := listers.FromFactory(factory)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	client, err := trimtab.NewClient("127.0.0.1:8085", trimtab.Options{Security: trimtab.SecurityFromEnvironment()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var state *trimtabv1.PlanState
	for ; ; time.Sleep(time.Minute) {
		if state, err = round(ctx, client, from, state); err != nil {
			log.Print(trimtab.ReasonOf(err), " ", err)
		}
	}
}

// round asks for a plan over what the informers have now, and returns the state that the next round passes on.
func round(
	ctx context.Context, client *trimtab.Client, from listers.Listers, state *trimtabv1.PlanState,
) (*trimtabv1.PlanState, error) {
	cluster, err := from.Cluster()
	if err != nil {
		return state, err
	}
	most := int32(20)
	trimtab.Add(cluster, trimtab.NewNodeGroup("workers", trimtab.NodeGroupSpec{
		MinSize: 1, MaxSize: &most, NodeSelector: map[string]string{"pool": "workers"},
	}))
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	plan, err := client.Plan(ctx, cluster, &trimtabv1.PlanRequest{
		Cluster:   "production",
		Decisions: []trimtabv1.Decision_Code{trimtabv1.Decision_SCALE_DOWN},
		Now:       timestamppb.Now(),
		State:     state,
	})
	if err != nil {
		return state, err
	}
	for _, node := range plan.ScaleDown.Drain {
		log.Print("can go: ", node)
	}
	return plan.State, nil
}
