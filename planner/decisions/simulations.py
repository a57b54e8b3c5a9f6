"""The simulation of a request: its snapshot, with the request's time and simulation settings."""

from trimtab.planner.model.derive import Derive
from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.simulation.build import READ, Simulation, SimulationSettings, build_simulation
from trimtab.planner.simulation.fresh import to_keep
from trimtab.planner.simulation.growth import NO_GROWTH, GrowthNeed, GrowthRows, growth_rows
from trimtab.planner.simulation.virtual import with_virtual
from trimtab.planner.simulation.virtual_rows import NOTHING_VIRTUAL, VirtualRows
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2 as pb


def simulate(
    snapshot: Snapshot,
    request: pb.PlanRequest,
    derive: Derive,
    virtual: VirtualRows = NOTHING_VIRTUAL,
    effort: Effort = UNLIMITED,
    nodes_key: str = "",
) -> Simulation:
    """Return a separate simulation with every running pod on its node and the virtual ones on none. The part that
    depends only on the snapshot, the virtual nodes and the kinds of pods is built once and copied. nodes_key :
    identifies the virtual nodes; equal keys imply equal nodes.
    """
    settings = simulation_settings(request.settings)
    if settings != SimulationSettings():
        return build_simulation(snapshot, virtual, request.now.seconds, settings, effort)
    rest = VirtualRows(nodes=virtual.nodes, kinds=virtual.kinds)
    key = f"simulation {' '.join(filter(None, (nodes_key, virtual.kinds.key)))}"
    # Virtual nodes depend on groups and much else; without them, parts that a delta does not touch are kept.
    kept = derive(key, lambda: to_keep(build_simulation(snapshot, rest, effort=effort)), () if nodes_key else READ)
    return with_virtual(kept._replace(snapshot=snapshot), virtual.pods, effort=effort, kinds=virtual.kinds)


def growing(
    snapshot: Snapshot, need: GrowthNeed | None, virtual_pod_count: int, derive: Derive, effort: Effort = UNLIMITED
) -> tuple[GrowthRows, str]:
    """Return the virtual nodes with which groups grow, and their key. Laid out once for each key."""
    if need is None:
        return NO_GROWTH, ""
    required, blanks = need, need.blanks(virtual_pod_count)
    key = f"growth {required.whole_key(blanks)}"

    def lay_out() -> GrowthRows:
        return growth_rows(required.templates(effort), required.upcoming, blanks, snapshot, effort)

    return derive(key, lay_out), key


def simulation_settings(settings: pb.PlanSettings) -> SimulationSettings:
    """Return the simulation's settings, defaults filled in."""
    return SimulationSettings(honor_spread_timeout=settings.simulation.topology_spread_timeout)
