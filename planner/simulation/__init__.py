"""Placement simulation: an undo log over counters. `build.build_simulation` makes a `Simulation`, `build.with_virtual`
adds virtual pods and nodes to one. Its `state` is the one NamedTuple of arrays that kernels take
(`state.SimulationState`); those of other packages pass it to `simulation.kernels`:

- `fits(sim, pod, node)`: whether every predicate admits a pod that is on no node, cheapest first; `failing`: the mask
  `1 << PredicateReason.Code` of all that do not. O(terms of the pod).
- `place(sim, pod, node)`, `remove(sim, pod)`, `place_several(sim, pod_class, node, count)`: logged. They return 0, -1
  if that is not possible, or -2 if the log is full.
- `cordon(sim, node)`: the node takes no more pods but keeps its topology domains, as a tainted one does in the Cluster
  Autoscaler's simulation; `remove_from_topology(sim, node)` takes a cordoned node without pods out. Logged.
- `open_node`, `close_node`, `open_from_template(sim, node, template_node)`: a virtual node joins the cluster or leaves
  it, the last with the pods of its template. Logged. `growth` lays out the virtual nodes that let node groups grow.
- `mark(sim)`, `revert(sim, mark)`: fork, and replay the log backwards. A full log is remembered (`log.check_log`).

Pods and nodes are numbered as in the snapshot; virtual ones follow. The node of a pod is `sim.pod_node[pod]`. To drain
a node: remove its pods, `cordon`, place them, `remove_from_topology`.
"""
