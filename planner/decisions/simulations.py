"""The simulation of a request: its snapshot with the request's moment and simulation settings."""

from trimtab.v1 import plan_pb2 as pb

from planner.simulation.build import Simulation, SimulationSettings, build_simulation
from planner.simulation.injected_pods import InjectedPod
from planner.snapshot.columns import Snapshot


def simulate(snapshot: Snapshot, request: pb.PlanRequest, injected: tuple[InjectedPod, ...] = ()) -> Simulation:
    """Build a fresh simulation with every running pod on its node and the injected ones on none."""
    return build_simulation(snapshot, injected, request.now.seconds, simulation_settings(request.settings))


def simulation_settings(settings: pb.PlanSettings) -> SimulationSettings:
    """Return the simulation's settings, defaults filled in."""
    return SimulationSettings(honor_spread_timeout=settings.simulation.topology_spread_timeout)
