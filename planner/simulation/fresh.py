"""A simulation for one caller from one that is kept: what is written is copied, the rest is shared.

Contract: pure. The kept simulation is as it was built, is never handed out itself and never changes. A fresh one
equals it bit by bit, and behaves as one built anew. Cost: O(P + counters) copied bytes, a tenth of building.
"""

from planner.simulation.build import Simulation, move_log, search_memory
from planner.simulation.state import SimulationState


def to_keep(built: Simulation) -> Simulation:
    """Return a simulation just built as one to keep: without room for moves, of which it will see none."""
    return built._replace(state=built.state._replace(log=move_log(0, 0)))


def fresh(kept: Simulation) -> Simulation:
    """Return a simulation of its own to write to."""
    return kept._replace(state=_state(kept.state))


def _state(kept: SimulationState) -> SimulationState:
    return kept._replace(
        pod_node=kept.pod_node.copy(),
        node_state=kept.node_state.copy(),
        resources=kept.resources._replace(free=kept.resources.free.copy()),
        presence=kept.presence._replace(counts=kept.presence.counts.copy(), total=kept.presence.total.copy()),
        spread=kept.spread._replace(
            nodes_in=kept.spread.nodes_in.copy(),
            domains_in=kept.spread.domains_in.copy(),
            counts=kept.spread.counts.copy(),
            histogram=kept.spread.histogram.copy(),
            lowest=kept.spread.lowest.copy(),
        ),
        volumes=kept.volumes._replace(
            claim_used=kept.volumes.claim_used.copy(),
            attached=kept.volumes.attached.copy(),
            mounted=kept.volumes.mounted.copy(),
        ),
        log=move_log(len(kept.pod_node), len(kept.node_state)),
        memory=search_memory(len(kept.local_class), len(kept.node_state)),
    )
