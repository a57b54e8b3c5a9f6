package trimtab

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

// claimsUnknown says why no node fits a pod that claims devices: this client
// does not read ResourceClaims.
const claimsUnknown = " in the input, which has no claims of devices; add " +
	"`kubectl get resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses -A`"

// claimsOf returns what a pod claims, each with the problem that keeps the pod
// from every node: claims of devices are not read. isSuccessor : of a pod like
// it, for which no claim has been made yet.
func claimsOf(pod *corev1.Pod, isSuccessor bool) []*pb.PodClaim {
	var out []*pb.PodClaim
	for _, entry := range pod.Spec.ResourceClaims {
		row := &pb.PodClaim{Name: entry.Name}
		made, isMade := madeClaim(pod, entry.Name)
		template := ptr.Deref(entry.ResourceClaimTemplateName, "")
		switch {
		case ptr.Deref(entry.ResourceClaimName, "") != "":
			row.SharedClaim = *entry.ResourceClaimName
			row.Problem = "ResourceClaim " + namespaceOf(pod) + "/" + row.SharedClaim + " does not exist" + claimsUnknown
		case template == "":
			row.Problem = "spec.resourceClaims, " + entry.Name + ": it names neither a ResourceClaim nor a ResourceClaimTemplate"
		case isSuccessor || !isMade:
			row.Problem = "ResourceClaimTemplate " + namespaceOf(pod) + "/" + template + " does not exist" + claimsUnknown
		case made == "":
			continue // none is needed
		default:
			row.Problem = "ResourceClaim " + namespaceOf(pod) + "/" + made + " does not exist" + claimsUnknown
		}
		out = append(out, row)
	}
	return out
}

// madeClaim returns the claim that was made for an entry of a pod; "" = none is
// needed, false = none has been made yet.
func madeClaim(pod *corev1.Pod, entry string) (string, bool) {
	made, isMade := "", false
	for _, one := range pod.Status.ResourceClaimStatuses {
		if one.Name == entry {
			made, isMade = ptr.Deref(one.ResourceClaimName, ""), true
		}
	}
	return made, isMade
}
