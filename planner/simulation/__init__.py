"""Placement simulation: an undo log over counters.

The state is one NamedTuple of arrays (`planner.simulation.state.SimulationState`), built from a snapshot by
`planner.simulation.build`. Kernels of other packages call the kernels of `planner.simulation.kernels` on it:

- `fits(sim, pod, node) -> bool`: every predicate, cheapest first; O(terms of the pod).
- `failing(sim, pod, node) -> uint32`: bit `PredicateReason.Code` for every predicate that says no.
- `place(sim, pod, node)` / `remove(sim, pod)`: put a pod on a node, take it off; both are written to the log.
- `find(sim, pod, allowed, start) -> int32`: first node from `start`, cyclic, with `allowed[node]` that fits; -1 = none.
- `retire(sim, node)`: the node takes no more pods but keeps its topology domains alive, as upstream's tainted ghost does;
  `drop(sim, node)`: a retired node without pods leaves the topology too. Both are written to the log.
- `mark(sim) -> int64`, `revert(sim, mark)`: fork is a mark; revert replays the log backwards to it; commit just forgets
  the mark.

Pods are numbered as in the snapshot, 0 to P-1; pods that are injected (recent evictions) follow from P on.
"""
