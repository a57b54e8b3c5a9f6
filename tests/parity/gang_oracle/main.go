// Command gang-oracle asks the real scheduler (its pod group cycle, on fake API objects) which pods of gangs it binds.
// It reads one question a line and writes one answer a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// A Node has CPUs and is in a pool.
type Node struct {
	Pool string `json:"pool"`
	CPUs int    `json:"cpus"`
}

// A Unit is a gang, a group with the policy basic, or pods without a group (min 0). Its pods request one CPU each.
type Unit struct {
	Min      int            `json:"min"`
	Basic    bool           `json:"basic"`
	Priority int32          `json:"priority"`
	Pods     map[string]int `json:"pods"`    // that wait, by pool
	Running  []int          `json:"running"` // nodes, one for each running pod
	Odd      string         `json:"odd"`     // see below, "" = nothing is
}

// What is odd about a unit: the first of its waiting or running pods differs from the others, or the group from its pods.
const (
	oddPriority         = "priority"
	oddGate             = "gate"
	oddScheduler        = "scheduler"
	oddRunningPriority  = "running priority"
	oddRunningScheduler = "running scheduler"
	oddGroup            = "group priority"
	more                = 1000
	second              = "second-scheduler"
)

func (u Unit) hasGroup() bool { return u.Min > 0 || u.Basic }

// groupPriority is that of the group's object.
func (u Unit) groupPriority() *int32 {
	priority := u.Priority
	if u.Odd == oddGroup {
		priority += more
	}
	return &priority
}

// A Question is a cluster.
type Question struct {
	Nodes []Node `json:"nodes"`
	Units []Unit `json:"units"`
}

func pod(u int, unit Unit, name string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = fmt.Sprintf("u%d-%s", u, name), "default", types.UID(fmt.Sprintf("u%d-%s", u, name))
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	never := v1.PreemptNever
	p.Spec.Priority, p.Spec.PreemptionPolicy = &unit.Priority, &never
	requests := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "none", Resources: v1.ResourceRequirements{Requests: requests}}}
	if unit.hasGroup() {
		group := fmt.Sprintf("u%d", u)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	return p
}

func podGroup(name string, unit Unit) runtime.Object {
	group := &podGroupObject{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if unit.Basic {
		group.Spec.SchedulingPolicy.Basic = &basicPolicy{}
	} else {
		group.Spec.SchedulingPolicy.Gang = &gangPolicy{MinCount: int32(unit.Min)}
	}
	group.Spec.Priority = unit.groupPriority()
	return group
}

func setPriority(p *v1.Pod, priority int32) { p.Spec.Priority = &priority }

// profiles are the default one, and the same by another name.
func profiles() ([]config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	other := defaults.Profiles[0].DeepCopy()
	other.SchedulerName = second
	return append(defaults.Profiles, *other), nil
}

func objects(q Question) (all []runtime.Object, waiting int) {
	for i, n := range q.Nodes {
		room := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n.CPUs), resource.DecimalSI), v1.ResourcePods: resource.MustParse("110")}
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"pool": n.Pool}}
		all = append(all, &v1.Node{ObjectMeta: meta, Status: v1.NodeStatus{Capacity: room, Allocatable: room}})
	}
	for u, unit := range q.Units {
		if unit.hasGroup() {
			all = append(all, podGroup(fmt.Sprintf("u%d", u), unit))
		}
		for i, node := range unit.Running {
			p := pod(u, unit, fmt.Sprintf("running-%d", i))
			p.Spec.NodeName, p.Status.Phase = fmt.Sprintf("n%d", node), v1.PodRunning
			if i == 0 && unit.Odd == oddRunningPriority {
				setPriority(p, unit.Priority+more)
			}
			if i == 0 && unit.Odd == oddRunningScheduler {
				p.Spec.SchedulerName = second
			}
			all = append(all, p)
		}
		odd := unit.Odd
		for pool, count := range unit.Pods {
			for i := range count {
				p := pod(u, unit, fmt.Sprintf("%s-%d", pool, i))
				p.Spec.NodeSelector = map[string]string{"pool": pool}
				switch odd {
				case oddPriority:
					setPriority(p, unit.Priority+more)
				case oddScheduler:
					p.Spec.SchedulerName = second
				case oddGate:
					p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
				}
				odd = ""
				all = append(all, p)
				waiting++
			}
		}
	}
	return all, waiting
}

// ask makes one pass over the queue and returns how many pods of each unit were bound.
func ask(q Question) ([]int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all, waiting := objects(q)
	// The newer form, which keeps who owns each field, takes six times the time of everything else.
	client := fake.NewSimpleClientset(all...)
	bound, total := make([]int, len(q.Units)), 0
	var lock sync.Mutex
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		var u int
		if _, err := fmt.Sscanf(binding.Name, "u%d-", &u); err != nil {
			return true, nil, err
		}
		lock.Lock()
		defer lock.Unlock()
		bound[u]++
		total++
		return true, binding, nil
	})
	factory := informerFactory(client)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	both, err := profiles()
	if err != nil {
		return nil, err
	}
	recorders := profile.NewRecorderFactory(broadcaster)
	sched, err := scheduler.New(ctx, client, factory, nil, recorders, scheduler.WithProfiles(both...))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); ; {
		if len(sched.SchedulingQueue.PodsInActiveQ()) > 0 {
			sched.ScheduleOne(ctx)
			continue
		}
		pending, summary := sched.SchedulingQueue.PendingPods()
		lock.Lock()
		done := total+len(pending) == waiting
		lock.Unlock()
		if done {
			return bound, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%d of %d pods bound, %s", total, waiting, summary)
		}
		time.Sleep(time.Millisecond)
	}
}

func main() {
	debug.SetGCPercent(400)
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		panic(err)
	}
	metrics.Register()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q Question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		bound, err := ask(q)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(must(json.Marshal(bound))))
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}
