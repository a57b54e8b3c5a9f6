"""The simulation of a request: its snapshot with the request's moment and simulation settings."""

from trimtab.v1 import plan_pb2 as pb

from planner.model.derive import Derive
from planner.simulation.build import Simulation, SimulationSettings, build_simulation
from planner.simulation.fresh import fresh, to_keep
from planner.simulation.injected_pods import InjectedPod
from planner.snapshot.columns import Snapshot


def simulate(
    snapshot: Snapshot, request: pb.PlanRequest, derive: Derive, injected: tuple[InjectedPod, ...] = ()
) -> Simulation:
    """Return a simulation of its own, with every running pod on its node and the injected ones on none.

    What follows from the snapshot alone is built once and copied.
    """
    settings = simulation_settings(request.settings)
    if injected or settings != SimulationSettings():
        return build_simulation(snapshot, injected, request.now.seconds, settings)
    return fresh(derive("simulation", lambda: to_keep(build_simulation(snapshot))))


def simulation_settings(settings: pb.PlanSettings) -> SimulationSettings:
    """Return the simulation's settings, defaults filled in."""
    return SimulationSettings(honor_spread_timeout=settings.simulation.topology_spread_timeout)
