"""The simulation of a request: its snapshot with the request's moment and simulation settings."""

from trimtab.v1 import plan_pb2 as pb

from planner.model.derive import Derive
from planner.model.effort import UNLIMITED, Effort
from planner.simulation.build import Simulation, SimulationSettings, build_simulation
from planner.simulation.fresh import to_keep
from planner.simulation.virtual import with_virtual
from planner.simulation.virtual_rows import VirtualPod, VirtualRows
from planner.snapshot.columns import Snapshot


def simulate(
    snapshot: Snapshot,
    request: pb.PlanRequest,
    derive: Derive,
    virtual: tuple[VirtualPod, ...] = (),
    effort: Effort = UNLIMITED,
) -> Simulation:
    """Return a simulation of its own, with every running pod on its node and the virtual ones on none.

    What follows from the snapshot alone is built once and copied.
    """
    settings = simulation_settings(request.settings)
    if settings != SimulationSettings():
        rows = VirtualRows(virtual)
        return build_simulation(snapshot, rows, request.now.seconds, settings, effort)
    kept = derive("simulation", lambda: to_keep(build_simulation(snapshot, effort=effort)))
    return with_virtual(kept, virtual, effort=effort)


def simulation_settings(settings: pb.PlanSettings) -> SimulationSettings:
    """Return the simulation's settings, defaults filled in."""
    return SimulationSettings(honor_spread_timeout=settings.simulation.topology_spread_timeout)
