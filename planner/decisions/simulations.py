"""The simulation of a request: its snapshot, with the request's time and simulation settings; and the virtual nodes
with which groups grow in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.simulation.build import Simulation, SimulationSettings, build_simulation, to_keep, with_virtual
from trimtab.planner.simulation.growth import NO_GROWTH, Growth, GrowthNeed, GrowthRows, growth_rows
from trimtab.planner.simulation.inputs import NO_TEMPLATES, TemplateRequestsKey, template_requests
from trimtab.planner.simulation.virtual_rows import NOTHING_VIRTUAL, GroupTemplate, VirtualRows
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.recorded_reads import depend_on_everything
from trimtab.v1 import plan_pb2 as pb


@dataclass(frozen=True)
class SimulationKey(SnapshotKey[Simulation]):
    """The simulation without virtual pods. nodes, kinds : identify the virtual nodes and the kinds of virtual pods;
    expendable_below : as in `SimulationSettings`; templates : digest of what controllers' templates request."""

    nodes: str
    kinds: str
    expendable_below: int | None
    templates: str = ""


@dataclass(frozen=True)
class GrowthRowsKey(SnapshotKey[GrowthRows]):
    """The virtual nodes with which groups grow. needs : the keys of all requirements."""

    needs: str


def simulate(
    snapshot: Snapshot,
    request: pb.PlanRequest,
    cache: SnapshotCache,
    virtual: VirtualRows = NOTHING_VIRTUAL,
    limits: RequestLimits = UNLIMITED,
    nodes_key: str = "",
    expendable_below: int | None = None,
) -> Simulation:
    """Return a separate simulation with every running pod on its node and the virtual ones on none. The part that
    depends only on the snapshot, the virtual nodes and the kinds of pods is built once and copied. nodes_key :
    identifies the virtual nodes; equal keys imply equal nodes. expendable_below : as in `SimulationSettings`.
    """
    templates = NO_TEMPLATES
    if expendable_below is not None:
        templates = cache.get(TemplateRequestsKey(), snapshot, template_requests)
    settings = simulation_settings(request.settings)._replace(expendable_below=expendable_below, templates=templates)
    if settings.depends_on_time:
        return build_simulation(snapshot, virtual, request.now.seconds, settings, limits)
    rest = VirtualRows(nodes=virtual.nodes, kinds=virtual.kinds)

    def build(view: Snapshot) -> Simulation:
        if nodes_key:
            # Virtual nodes depend on groups and much else.
            depend_on_everything(view)
        return to_keep(build_simulation(view, rest, settings=settings, limits=limits))._replace(snapshot=snapshot)

    key = SimulationKey(nodes_key, virtual.kinds.key, expendable_below, templates.digest)
    kept = cache.get(key, snapshot, build)
    return with_virtual(kept._replace(snapshot=snapshot), virtual.pods, limits=limits, kinds=virtual.kinds)


class RoundGrowth(NamedTuple):
    """The virtual nodes with which groups grow in a round. rows : of all decisions; key : identifies them; shares : by
    decision, what it may use of them.
    """

    rows: GrowthRows
    key: str
    shares: Mapping[int, Growth]

    def of(self, code: int) -> Growth:
        """Return the nodes of a decision; without requirements of its own, those that exist anyway: upcoming ones."""
        share = self.shares.get(code)
        return self.rows.growth._replace(spare_nodes=_NO_NODES, spare_names=()) if share is None else share


_NO_NODES: Final = np.zeros(0, np.int64)
NOBODY_GROWS: Final = RoundGrowth(NO_GROWTH, "", {})


def round_growth(
    snapshot: Snapshot,
    needs: Mapping[int, GrowthNeed],
    virtual_pod_count: int,
    cache: SnapshotCache,
    limits: RequestLimits = UNLIMITED,
) -> RoundGrowth:
    """Return the virtual nodes with which groups grow, laid out once for each key.

    needs : the requirements of decisions, by `Decision.Code`, in the order of the plan. A new node of a group is the
    same for all of them: that of the first one that has a template for the group. Each has spare nodes of its own, so
    that none opens a node that an earlier one opened.
    """
    if not needs:
        return NOBODY_GROWS
    spare_nodes = [need.spare_nodes(virtual_pod_count) for need in needs.values()]
    key = f"growth {' '.join(need.whole_key(count) for need, count in zip(needs.values(), spare_nodes, strict=True))}"

    def lay_out(view: Snapshot) -> GrowthRows:
        depend_on_everything(view)
        templates = zip(*(need.templates(limits) for need in needs.values()), strict=True)
        upcoming = np.max([need.upcoming for need in needs.values()], axis=0).tolist()
        return growth_rows(list(map(_first, templates)), upcoming, sum(spare_nodes), snapshot, limits)

    rows = cache.get(GrowthRowsKey(key), snapshot, lay_out)
    return RoundGrowth(rows, key, dict(zip(needs, shares_of(rows.growth, spare_nodes), strict=True)))


def _first(templates: tuple[GroupTemplate | None, ...]) -> GroupTemplate | None:
    return next((template for template in templates if template is not None), None)


def shares_of(growth: Growth, spare_nodes: list[int]) -> Iterator[Growth]:
    """Yield the part of each decision, in order. If there are fewer spare nodes than required, because a cluster may
    not have so many, the first ones get theirs, and each later one at least one.
    """
    start = 0
    for number, wanted in enumerate(spare_nodes):
        later = sum(1 for count in spare_nodes[number + 1 :] if count)
        end = max(min(start + wanted, len(growth.spare_nodes) - later), start)
        yield growth._replace(spare_nodes=growth.spare_nodes[start:end], spare_names=growth.spare_names[start:end])
        start = end


def simulation_settings(settings: pb.PlanSettings) -> SimulationSettings:
    """Return the simulation's settings, defaults filled in."""
    given = settings.simulation
    return SimulationSettings(given.topology_spread_timeout, given.taint_toleration_comparison_operators)
