package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// prepared is a document after the API server's defaults, with pods sorted out.
type prepared struct {
	nodes   []*v1.Node
	running []*v1.Pod
	invalid map[string][]string
	// terminal counts pods that ended; the scheduler does not see them.
	terminal int
}

func prepare(d *Document) (*prepared, error) {
	p := &prepared{invalid: map[string][]string{}}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		corev1.SetObjectDefaults_Node(n)
		p.nodes = append(p.nodes, n)
		if d.Validate {
			p.note("node/"+n.Name, validateNode(n))
		}
	}
	for i := range d.Pods {
		pod := &d.Pods[i]
		if err := p.pod(pod, d.Validate, d.Admit == "all"); err != nil {
			return nil, err
		}
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			p.terminal++
			continue
		}
		if pod.Spec.NodeName == "" {
			return nil, fmt.Errorf("pods: %s has no nodeName", podKey(pod))
		}
		p.running = append(p.running, pod)
	}
	for i := range d.Pending {
		if err := p.pod(&d.Pending[i], d.Validate, d.Admit == "all" || d.Admit == "pending"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *prepared) note(what string, errs []string) {
	if len(errs) > 0 {
		p.invalid[what] = errs
	}
}

func (p *prepared) pod(pod *v1.Pod, validate, admit bool) error {
	setPodDefaults(pod)
	if validate {
		p.note("pod/"+podKey(pod), validatePod(pod))
	}
	if !admit {
		return nil
	}
	status := pod.Status
	in, out := &core.Pod{}, &v1.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod, in, nil); err != nil {
		return err
	}
	podregistry.Strategy.PrepareForCreate(context.Background(), in)
	if err := corev1.Convert_core_Pod_To_v1_Pod(in, out, nil); err != nil {
		return err
	}
	out.Status = status
	*pod = *out
	return nil
}

// setPodDefaults adds what recorded and hand-written pods leave out.
func setPodDefaults(p *v1.Pod) {
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	if p.UID == "" {
		p.UID = types.UID(podKey(p))
	}
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []v1.Container{{}}
	}
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = "image"
			}
		}
	}
	name := func(prefix string, list []v1.Container) {
		for i := range list {
			if list[i].Name == "" {
				list[i].Name = fmt.Sprintf("%s%d", prefix, i)
			}
		}
	}
	name("c", p.Spec.Containers)
	name("i", p.Spec.InitContainers)
	corev1.SetObjectDefaults_Pod(p)
}

func validatePod(p *v1.Pod) []string {
	in := &core.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(p.DeepCopy(), in, nil); err != nil {
		return []string{err.Error()}
	}
	in.Spec.NodeName = ""
	in.Status = core.PodStatus{}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&in.Spec, nil, &in.ObjectMeta, nil)
	opts.ResourceIsPod = true
	return texts(validation.ValidatePodCreate(in, opts))
}

func validateNode(n *v1.Node) []string {
	in := &core.Node{}
	if err := corev1.Convert_v1_Node_To_core_Node(n.DeepCopy(), in, nil); err != nil {
		return []string{err.Error()}
	}
	return texts(validation.ValidateNode(in))
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}
