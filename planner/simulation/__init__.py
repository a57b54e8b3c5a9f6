"""Placement simulation: an undo log over counters.

`trimtab.planner.simulation.build.build_simulation(snapshot, virtual, now_s, settings)` makes a `Simulation`;
`trimtab.planner.simulation.virtual.with_virtual(simulation, pods, nodes)` adds virtual pods and nodes to one. Its
`state` is the one NamedTuple of arrays (`trimtab.planner.simulation.state.SimulationState`) that kernels take. Kernels
of other packages pass it to those of `trimtab.planner.simulation.kernels`:

- `fits(sim, pod, node) -> bool`: checks every predicate, cheapest first; O(terms of the pod). The pod must be on no
  node.
- `failing(sim, pod, node) -> int`: sets bit `1 << PredicateReason.Code` for every failing predicate; 0 = fits.
- `place(sim, pod, node)` / `remove(sim, pod)`: put a pod on a node, take it off; both are written to the log. They
  return 0, or -1 if that is not possible (already on a node, on none), or -2 if the log is full.
- `cordon(sim, node)`: the node takes no more pods but keeps its topology domains, as a tainted node does in
  the Cluster Autoscaler's simulation; `remove_from_topology(sim, node)` takes a cordoned node without pods out of the
  topology. Both are written to the log.
- `open_node(sim, node)` / `close_node(sim, node)`: a virtual node, closed at first, joins the cluster or leaves it;
  both are written to the log. No predicate admits a pod to a closed node, and it is in no topology domain.
- `open_from_template(sim, node, template_node)`: a closed spare node joins as one like a template node, with the pods
  that such a node has from the start (`VirtualNodes.residents`). `trimtab.planner.simulation.growth` lays out the
  virtual nodes that let node groups grow.
- `place_several(sim, pod_class, node, count)`: counts pods of one class on a node by one move, to be undone.
- `mark(sim) -> int`, `revert(sim, mark)`: fork is a mark; revert replays the log backwards to it. To keep the moves,
  ignore the mark. A full log is remembered: `trimtab.planner.simulation.log.check_log(state)` raises MoveLogFullError,
  and `with_larger_log` makes
room for a retry.

Pods and nodes are numbered as in the snapshot, 0 to P-1 and 0 to N-1; virtual ones (recent evictions, placeholders;
nodes that a node group would add) follow from P and N on. The node of a pod is `sim.pod_node[pod]`. To drain a node as
upstream does: remove its pods, `cordon`, place them, `remove_from_topology`.
"""
