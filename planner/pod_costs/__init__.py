"""Pod deletion costs: in which order the pods of a workload are best removed when it shrinks.

A target selects pods; the pods of one owner are a group, ranked as a whole or not at all. Each strategy gives each pod
a rank; ranks are cut off, scaled, weighted and summed, and the sum with its sign turned is the pod's cost. Writes
nothing to a cluster. Source: Kubernetes enhancement proposal 1888, "Cost based scaling down of pods".
"""
