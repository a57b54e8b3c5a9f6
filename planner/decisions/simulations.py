"""The simulation of a request: its snapshot, with the request's time and simulation settings; and the virtual nodes
with which groups grow in it.

Pods of gangs that their workloads have not made yet may be added as pending pods, up to the number that the workload
makes: like its pod template, or else like the last of the group's pods by name; none for groups that cannot be read,
nor for those beyond a number of pods, which a note names. Their names are no names of pods: "GROUP (missing 1)".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import MISSING_UID, members_by_group, template_of
from trimtab.planner.model.execution import UNLIMITED, RequestLimits, asking, reserve_memory
from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.simulation.build import Simulation, SimulationSettings, build_simulation, to_keep, with_virtual
from trimtab.planner.simulation.growth import NO_GROWTH, Growth, GrowthNeed, GrowthRows, growth_rows
from trimtab.planner.simulation.inputs import NO_TEMPLATES, TemplateRequestsKey, template_requests
from trimtab.planner.simulation.virtual_rows import NOTHING_VIRTUAL, VirtualRows
from trimtab.planner.slack.specs import SpecWriter
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey, depend_on_everything
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2


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
    simulation = cache.get(key, snapshot, build)
    return with_virtual(simulation._replace(snapshot=snapshot), virtual.pods, limits=limits, kinds=virtual.kinds)


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
        of_groups = zip(*(need.templates(limits) for need in needs.values()), strict=True)
        templates = [next((template for template in of_group if template is not None), None) for of_group in of_groups]
        upcoming = np.max([need.upcoming for need in needs.values()], axis=0).tolist()
        return growth_rows(templates, upcoming, sum(spare_nodes), snapshot, limits)

    rows = cache.get(GrowthRowsKey(key), snapshot, lay_out)
    return RoundGrowth(rows, key, dict(zip(needs, shares_of(rows.growth, spare_nodes), strict=True)))


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
    message = settings.simulation
    return SimulationSettings(message.topology_spread_timeout, message.taint_toleration_comparison_operators)


MOST: Final = 5000
"""Most missing pods of one group that count: a wrong number in an object does not fill a plan."""
MOST_TOGETHER: Final = 100_000
"""Most missing pods of all groups; a group for whose pods no more is left gets none, and the next ones are tried."""
_BYTES: Final = 700
"""Memory of a pod while it is added, and in the plan."""


class _Missing(NamedTuple):
    """Pods that a group lacks: `added` pods like `like` are added; is_cut : fewer than it lacks."""

    group: PodGroup
    like: TemplatePod
    added: int
    is_cut: bool


def with_missing_members(snapshot: Snapshot) -> tuple[Snapshot, str]:
    """Return the snapshot with the pods that are missing, the same object if none is; and a note for people, "" = all
    of them have been added."""
    lacks = list(_missing(snapshot))
    cut = [f"{missing.group.namespace}/{missing.group.name}" for missing in lacks if missing.is_cut]
    note = ""
    if cut:
        shown = ", ".join(cut[:3]) + (", …" if len(cut) > 3 else "")
        note = (
            f"missing pods of {len(cut)} gangs are not counted, as a plan counts {MOST} of a gang and {MOST_TOGETHER} "
            f"of all: {shown}"
        )
    count = sum(missing.added for missing in lacks)
    if not count:
        return snapshot, note
    reserve_memory(_BYTES * count, "missing pods of gangs")
    delta = snapshot_pb2.SnapshotDelta()
    _write(
        delta.changed, [(missing.group, at, missing.like) for missing in lacks for at in range(1, missing.added + 1)]
    )
    return apply_delta(snapshot, delta)._replace(version=snapshot.version), note


def _missing(snapshot: Snapshot) -> Iterator[_Missing]:
    """Yield what is missing, group by group."""
    members, allowed = members_by_group(snapshot), MOST_TOGETHER
    for group in asking(snapshot.pod_groups):
        if group.problem or group.desired_count <= 0:
            continue
        exist = members.get((group.namespace, group.name), [])
        lacking = group.desired_count - len(exist)
        like = template_of(snapshot, group, exist) if lacking > 0 else None
        if like is not None:
            count = min(lacking, MOST)
            count = count if count <= allowed else 0
            allowed -= count
            yield _Missing(group, like, count, count < lacking)


def _write(out: snapshot_pb2.ClusterSnapshot, missing: list[tuple[PodGroup, int, TemplatePod]]) -> None:
    """Write the pods, with dictionaries of their own."""
    writer = SpecWriter()
    specs = [writer.spec(like.spec) for _, _, like in asking(missing)]
    sets = [writer.label_set(like.labels) for _, _, like in asking(missing)]
    dictionary = writer.finish()
    strings = {text: at for at, text in enumerate(dictionary.strings)}
    spaces = [strings.setdefault(group.namespace, len(strings)) for group, _, _ in missing]
    groups = [strings.setdefault(group.name, len(strings)) for group, _, _ in missing]
    names = [f"{group.name} (missing {number})".encode() for group, number, _ in missing]
    uids = [f"{MISSING_UID}{group.name}/{number}".encode() for group, number, _ in missing]
    out.strings.extend(strings)
    out.resources.extend(dictionary.resources)
    out.label_sets.CopyFrom(dictionary.label_sets)
    out.pod_specs.extend(dictionary.pod_specs)
    pods, count = out.pods, len(missing)
    pods.count = count
    pods.namespace, pods.spec, pods.label_set = _int32(spaces), _int32(specs), _int32(sets)
    pods.names, pods.name_lengths = b"".join(names), _int32(list(map(len, names)))
    pods.uids, pods.uid_lengths = b"".join(uids), _int32(list(map(len, uids)))
    pods.node, pods.pod_group = _int32([0] * count), _int32(groups)
    pods.phase = bytes([snapshot_pb2.PodPhase.PENDING]) * count


def _int32(values: list[int]) -> bytes:
    return np.array(values, "<i4").tobytes()
