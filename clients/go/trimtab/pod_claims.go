package trimtab

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// claimsUnknown is said of objects that are missing where the caller has none.
const claimsUnknown = " in the input, which has no claims of devices; add " +
	"`kubectl get resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses -A`"

// of returns what a pod claims, each entry of `spec.resourceClaims` resolved to
// the claim or the template that it names, or with the problem that keeps the
// pod from every node. isSuccessor : of a pod like it, for which no claim has
// been made yet.
func (c *claimObjects) of(pod *corev1.Pod, isSuccessor bool) []*pb.PodClaim {
	var out []*pb.PodClaim
	for at := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[at]
		made, isMade := madeClaim(pod.Status.ResourceClaimStatuses, entry.Name)
		switch {
		case ptr.Deref(entry.ResourceClaimName, "") != "":
			out = append(out, c.shared(entry.Name, namespaceOf(pod), *entry.ResourceClaimName))
		case ptr.Deref(entry.ResourceClaimTemplateName, "") == "":
			problem := "spec.resourceClaims, " + entry.Name + ": it names neither a ResourceClaim nor a ResourceClaimTemplate"
			out = append(out, &pb.PodClaim{Name: entry.Name, Problem: problem})
		case isSuccessor || !isMade:
			out = append(out, c.ofTemplate(pod, entry))
		case made != "":
			out = append(out, c.own(pod, entry, made))
		}
	}
	return out
}

// shared returns a claim that other pods may have too.
func (c *claimObjects) shared(entry, namespace, name string) *pb.PodClaim {
	claim := c.claims[namespace+"/"+name]
	row := &pb.PodClaim{Name: entry, SharedClaim: name, Problem: c.problem(namespace+"/"+name, claim)}
	if row.Problem == "" {
		if _, err := deviceClaimSpec(&claim.Spec); err != nil {
			row.Problem = below("ResourceClaim "+name+".spec", err).Error()
		}
	}
	return row
}

// own returns the claim that was made for a pod, or for its group.
func (c *claimObjects) own(pod *corev1.Pod, entry *corev1.PodResourceClaim, name string) *pb.PodClaim {
	key := namespaceOf(pod) + "/" + name
	claim := c.claims[key]
	if claim == nil {
		row := &pb.PodClaim{Name: entry.Name, Problem: c.problem(key, nil)}
		if template := c.templates[namespaceOf(pod)+"/"+*entry.ResourceClaimTemplateName]; template != nil {
			addClaimSpec(row, &template.Spec.Spec)
		}
		return row
	}
	owner := claimOwner(claim)
	if owner != nil && owner.Kind == "PodGroup" {
		return c.shared(entry.Name, namespaceOf(pod), name)
	}
	row := &pb.PodClaim{Name: entry.Name, Problem: c.problem(key, claim)}
	isOwn := owner != nil && owner.Name == pod.Name && (owner.UID == "" || string(owner.UID) == uidOf("Pod", pod))
	if row.Problem == "" && !isOwn {
		row.Problem = "ResourceClaim " + key + " exists, but is not of this pod"
	}
	addClaimSpec(row, &claim.Spec)
	return row
}

// ofTemplate returns the claim that will be made for a pod, or for its group, if
// the group has an entry like it.
func (c *claimObjects) ofTemplate(pod *corev1.Pod, entry *corev1.PodResourceClaim) *pb.PodClaim {
	row := &pb.PodClaim{Name: entry.Name}
	name := schedulingGroup(pod)
	if group := c.groups[namespaceOf(pod)+"/"+name]; name != "" && isOfGroup(entry, group) {
		// New pods get it into their status.
		made, _ := madeClaim(group.Status.ResourceClaimStatuses, entry.Name)
		if claim := c.claims[namespaceOf(pod)+"/"+made]; claim != nil {
			if owner := claimOwner(claim); owner != nil && owner.Kind == "PodGroup" && owner.Name == name {
				return c.shared(entry.Name, namespaceOf(pod), made)
			}
		}
		row.SharedClaim = name + "/" + entry.Name
	}
	key := namespaceOf(pod) + "/" + *entry.ResourceClaimTemplateName
	template := c.templates[key]
	if template == nil {
		row.Problem = c.missing("ResourceClaimTemplate " + key + " does not exist")
		return row
	}
	addClaimSpec(row, &template.Spec.Spec)
	return row
}

func addClaimSpec(row *pb.PodClaim, spec *resourcev1.ResourceClaimSpec) {
	found, err := deviceClaimSpec(spec)
	if err != nil {
		row.Problem = "spec.resourceClaims, " + row.Name + ": " + err.Error()
		return
	}
	row.Spec = found
}

func isOfGroup(entry *corev1.PodResourceClaim, group *PodGroup) bool {
	if group == nil {
		return false
	}
	for _, one := range group.Spec.ResourceClaims {
		if one.Name == entry.Name && ptr.Deref(one.ResourceClaimTemplateName, "") == *entry.ResourceClaimTemplateName {
			return true
		}
	}
	return false
}

// problem returns why a claim cannot be used; "" if it can.
func (c *claimObjects) problem(key string, claim *resourcev1.ResourceClaim) string {
	if claim == nil {
		return c.missing("ResourceClaim " + key + " does not exist")
	}
	if claim.DeletionTimestamp != nil {
		return "ResourceClaim " + key + " is being deleted"
	}
	if problem := tooManyDevices(claim); problem != "" {
		return "ResourceClaim " + key + ": " + problem
	}
	return ""
}

func (c *claimObjects) missing(problem string) string {
	if c.areKnown {
		return problem
	}
	return problem + claimsUnknown
}

// madeClaim returns the claim that was made for an entry of a pod or a group; ""
// = none is needed, false = none has been made yet.
func madeClaim(statuses []corev1.PodResourceClaimStatus, entry string) (string, bool) {
	made, isMade := "", false
	for _, one := range statuses {
		if one.Name == entry {
			made, isMade = ptr.Deref(one.ResourceClaimName, ""), true
		}
	}
	return made, isMade
}
