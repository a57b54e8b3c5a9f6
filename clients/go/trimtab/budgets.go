package trimtab

import (
	"cmp"
	"regexp"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	pb "trimtab.dev/clients/go/trimtabv1"
)

var budgetLimit = regexp.MustCompile(`^[0-9]{1,10}%?$`)

// budgetRow returns the row of a PodDisruptionBudget of policy/v1.
func budgetRow(budget *policyv1.PodDisruptionBudget, d *dictionary) (*pb.PodDisruptionBudget, error) {
	selected, err := labelSelector(budget.Spec.Selector)
	if err != nil {
		return nil, below("spec.selector", err)
	}
	row := &pb.PodDisruptionBudget{Namespace: namespaceOf(budget), Name: budget.Name}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil {
		if *policy != policyv1.IfHealthyBudget && *policy != policyv1.AlwaysAllow {
			return nil, badField("spec.unhealthyPodEvictionPolicy", "use IfHealthyBudget or AlwaysAllow", "%q is unknown", *policy)
		}
		row.AlwaysAllowUnhealthy = *policy == policyv1.AlwaysAllow
	}
	if budget.Spec.MinAvailable != nil && budget.Spec.MaxUnavailable != nil {
		return nil, badField("spec.maxUnavailable", "give one of the two", "it is given beside minAvailable")
	}
	row.Selector = d.selector(selected)
	if row.Status, err = budgetStatus(budget); err != nil {
		return nil, err
	}
	if row.MinAvailable, err = limitText("minAvailable", budget.Spec.MinAvailable); err != nil {
		return nil, err
	}
	row.MaxUnavailable, err = limitText("maxUnavailable", budget.Spec.MaxUnavailable)
	return row, err
}

func limitText(field string, value *intstr.IntOrString) (string, error) {
	if value == nil {
		return "", nil
	}
	if text := value.String(); budgetLimit.MatchString(text) {
		return text, nil
	}
	return "", badField("spec."+field, `give 1 or "50%", for example`,
		"%q is neither a number of pods nor a percentage", value.String())
}

func budgetStatus(budget *policyv1.PodDisruptionBudget) (*pb.PodDisruptionBudgetStatus, error) {
	status := &budget.Status
	for field, count := range map[string]int32{
		"disruptionsAllowed": status.DisruptionsAllowed, "currentHealthy": status.CurrentHealthy,
		"desiredHealthy": status.DesiredHealthy, "expectedPods": status.ExpectedPods,
	} {
		if count < 0 {
			return nil, badField("status."+field, "give a number of at least 0", "%d is absurd", count)
		}
	}
	return &pb.PodDisruptionBudgetStatus{
		DisruptionsAllowed: status.DisruptionsAllowed,
		CurrentHealthy:     status.CurrentHealthy,
		DesiredHealthy:     status.DesiredHealthy,
		ExpectedPods:       status.ExpectedPods,
		Observed:           status.ObservedGeneration >= budget.Generation,
		DisruptedPods:      sortedKeys(status.DisruptedPods),
		SyncError:          syncError(status),
	}, nil
}

// syncError returns why the controller cannot count the pods, "" = it can.
func syncError(status *policyv1.PodDisruptionBudgetStatus) string {
	for _, one := range status.Conditions {
		if one.Type == policyv1.DisruptionAllowedCondition && one.Status == "False" && one.Reason == policyv1.SyncFailedReason {
			return cmp.Or(one.Message, one.Reason)
		}
	}
	return ""
}
