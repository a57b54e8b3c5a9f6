"""Pod deletion costs: in which order the pods of a workload are best removed when it shrinks.

A target selects pods; the pods of one owner are a group, ranked as a whole or not at all. Each strategy gives each pod
a rank; ranks are capped, scaled, weighted and summed, and the negated sum is the pod's cost. Writes
nothing to a cluster. Source: Kubernetes enhancement proposal 1888, "Cost based scaling down of pods".
"""
