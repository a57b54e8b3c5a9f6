"""Placement simulation: an undo log over counters.

`planner.simulation.build.build_simulation(snapshot, injected, now_s, settings)` makes a `Simulation`; its `state` is
the one NamedTuple of arrays (`planner.simulation.state.SimulationState`) that kernels take. Kernels of other packages
call those of `planner.simulation.kernels` on it:

- `fits(sim, pod, node) -> bool`: every predicate, cheapest first; O(terms of the pod). The pod must be on no node.
- `failing(sim, pod, node) -> int`: bit `1 << PredicateReason.Code` for every predicate that says no; 0 = fits.
- `place(sim, pod, node)` / `remove(sim, pod)`: put a pod on a node, take it off; both are written to the log. They
  return 0, or -1 if that is not possible (already on a node, on none), or -2 if the log is full.
- `find(sim, pod, allowed, start) -> int`: first node from `start`, cyclic, with `allowed[node]` that fits; -1 = none.
- `find_all(sim, pod, allowed, found) -> int`: mark every such node.
- `retire(sim, node)`: the node takes no more pods but keeps its topology domains alive, as upstream's tainted ghost
  does; `drop(sim, node)`: a retired node without pods leaves the topology too. Both are written to the log.
- `mark(sim) -> int`, `revert(sim, mark)`: fork is a mark; revert replays the log backwards to it; commit forgets the
  mark, and `commit(sim, 0)` empties the log.

Pods are numbered as in the snapshot, 0 to P-1; pods that are injected (recent evictions) follow from P on. Where a
pod is: `sim.pod_node[pod]`. `allowed` is bool[N], and may change between calls. To upstream's way of draining a node:
remove its pods, `retire`, find and place, `drop`. `planner.simulation.explain.explain(simulation, pod, node)` names
reasons and short resources; `planner.simulation.warm_up.warm_up()` compiles.
"""
