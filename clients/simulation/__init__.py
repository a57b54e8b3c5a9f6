"""Simulated clusters on virtual time, with the real planner, the real loop and the real actuator.

    simulation = Simulation(seed=1)
    simulation.add_group("general", cpu="4", memory="16Gi", price=0.2, max_size=20)
    simulation.add_workload("web", replicas=30, cpu="500m", memory="1Gi")
    simulation.run_for("1h")
    assert simulation.node_count("general") == 5

Nothing sleeps: time advances to the next moment at which something is due. The cluster is
`trimtab.actuator.simulated_cluster`, the actuator `trimtab.actuator.service.app`, the planner
`trimtab.planner.service.request_handler`.
"""

from trimtab.clients.simulation.simulation import Simulation

__all__ = ["Simulation"]
