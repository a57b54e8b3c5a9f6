"""Simulated clusters on virtual time, with the real planner, the real loop and the real actuator.

    simulation = ClusterSimulation(seed=1)
    simulation.add_group("general", cpu="4", memory="16Gi", price=0.2, max_size=20)
    simulation.add_workload("web", replicas=30, cpu="500m", memory="1Gi")
    simulation.run_for("1h")
    assert simulation.node_count("general") == 5

Nothing sleeps: time advances to the next moment at which something is due. The cluster is
`trimtab.clients.simulation.cluster`, its cloud `trimtab.clients.simulation.cloud`, the actuator
`trimtab.actuator.service.app`, the planner `trimtab.planner.service.request_handler`. An actuator with `--cloud memory`
uses cluster and cloud without the rest, which is loaded on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.clients.simulation.simulation import ClusterSimulation

__all__ = ["ClusterSimulation"]


def __getattr__(name: str) -> Any:
    """Return the class `ClusterSimulation`; nothing else is found here."""
    if name != "ClusterSimulation":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trimtab.clients.simulation.simulation import ClusterSimulation

    return ClusterSimulation
