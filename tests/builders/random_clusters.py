"""Random small clusters for hypothesis: `clusters()` draws one, `changes()` one that follows another.

All obey the contract; dangling references are included.
"""

import math
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import RESOURCES, Cluster, Eviction, Group
from trimtab.planner.model.values import (
    AffinityTerm,
    DeletionInProgress,
    DisruptionBudget,
    HostPort,
    LabelRequirement,
    MountedVolume,
    NodeAffinityTerm,
    Owner,
    PodClaim,
    PodGroup,
    PodRequirements,
    SpreadConstraint,
    TaintSpec,
    TemplatePod,
    TolerationSpec,
    WeightedAffinityTerm,
)

# Small pools, so that rows meet each other.
KEYS = st.sampled_from(["app", "zone", "tier", "kubernetes.io/hostname", "é"])
TEXTS = st.sampled_from(["", "web", "db", "a", "b", "ä", "z" * 40])
NAMES = st.sampled_from(["a", "a-1", "a-10", "b", "web-0", "web-1", "z", "zz"])
NAMESPACES = st.sampled_from(["default", "kube-system", "a", "ab"])
NODES = st.sampled_from(["n1", "n2", "n3", "node-10"])
OWNERS = st.sampled_from(["o1", "o2", "o3"])
GROUPS = st.sampled_from(["g1", "g2", "g3"])
VOLUMES = ("v1", "v2", "v3")
TIMES_S = st.sampled_from([0, 1, 1_700_000_000])
TIMES_NS = st.sampled_from([0, 1, 1_700_000_000_123_456_789])
LABELS = st.dictionaries(KEYS, TEXTS, max_size=3)
LABEL_PAIRS = LABELS.map(lambda found: tuple(sorted(found.items())))
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 2**40), max_size=4)
REQUESTS = AMOUNTS.map(lambda found: tuple(sorted((name, amount) for name, amount in found.items() if amount)))


def _sorted_tuples(elements: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=most, unique=True).map(lambda found: tuple(sorted(found)))


# Building strategies for each draw would take longer than drawing.
OPERATORS = {True: st.sampled_from([1, 2, 3, 4, 5, 6]), False: st.sampled_from([1, 2, 3, 4])}
VALUES = st.sets(TEXTS, min_size=1, max_size=2)


@st.composite
def requirements(draw: st.DrawFn, on_nodes: bool) -> LabelRequirement:
    """Draw one requirement that obeys the contract."""
    operator = draw(OPERATORS[on_nodes])
    values: tuple[str, ...] = ()
    if operator in (1, 2):
        values = tuple(sorted(draw(VALUES)))
    elif operator in (5, 6):
        values = (draw(TEXTS),)
    return LabelRequirement(draw(KEYS), operator, values)


SELECTORS = st.none() | st.lists(requirements(False), max_size=2).map(tuple)
TERMS = st.none() | st.lists(
    st.builds(
        NodeAffinityTerm,
        st.lists(requirements(True), max_size=2).map(tuple),
        st.lists(requirements(False), max_size=1).map(tuple),
    ),
    max_size=2,
).map(tuple)
AFFINITY = st.lists(st.builds(AffinityTerm, SELECTORS, _sorted_tuples(NAMESPACES), SELECTORS, KEYS), max_size=1).map(
    tuple
)
SPECS = st.builds(
    PodRequirements,
    requests=REQUESTS,
    node_selector=LABEL_PAIRS,
    node_affinity=TERMS,
    tolerations=_sorted_tuples(st.builds(TolerationSpec, TEXTS, st.sampled_from([1, 2]), TEXTS, st.integers(0, 3))),
    host_ports=_sorted_tuples(
        st.builds(HostPort, st.sampled_from(["TCP", "UDP"]), st.sampled_from(["0.0.0.0", "10.0.0.1"]), st.just(80))
    ),
    pod_affinity=AFFINITY,
    pod_anti_affinity=AFFINITY,
    topology_spread=st.lists(
        st.builds(
            SpreadConstraint,
            st.integers(1, 3),
            KEYS,
            SELECTORS,
            st.integers(1, 3),
            st.booleans(),
            st.booleans(),
            _sorted_tuples(KEYS),
        ),
        max_size=1,
    ).map(tuple),
    priority=st.sampled_from([-5, 0, 1000]),
    scheduler_name=st.sampled_from(["", "other"]),
    restart_policy=st.integers(0, 3),
    termination_grace_period_s=st.sampled_from([0, 30, 600]),
    safe_to_evict=st.integers(0, 3),
    local_storage=st.booleans(),
    unsupported=_sorted_tuples(st.sampled_from(["resourceClaims", "other"])),
    topology_spread_timeout_s=st.sampled_from([-1, 0, 60]),
    enable_ds_eviction=st.sampled_from([-1, 0, 1]),
    preferred_pod_anti_affinity=st.lists(
        st.builds(
            WeightedAffinityTerm,
            st.integers(1, 100),
            st.builds(AffinityTerm, SELECTORS, _sorted_tuples(NAMESPACES), SELECTORS, KEYS),
        ),
        max_size=1,
    ).map(tuple),
    exclusive_disks=_sorted_tuples(st.sampled_from(["d1", "d2"])),
    node_features=_sorted_tuples(st.sampled_from(["F", "G"])),
    read_only_disks=_sorted_tuples(st.sampled_from(["d1", "d2"])),
    scale_up_delay_s=st.sampled_from([-1, 0, 90]),
    # Claims that can be used are drawn with their devices, by `device_snapshots`.
    claims=st.sampled_from([(), (), (), (PodClaim("gpu", "", None, "there is no template"),)]),
    extended_device_requests=st.just(()),
    capacity_request=st.sampled_from(["", "", "a"]),
)


def _by_id(ids: tuple[str, ...]) -> tuple[MountedVolume, ...]:
    """Return volumes of which only the ids are drawn yet."""
    return tuple(MountedVolume(one, 0, "", "", None, (), False, "") for one in ids)


PODS = st.builds(
    PodRow,
    uid=st.sampled_from(["u1", "u2", "u-é", "u" * 36]),
    spec=st.sampled_from([PodRequirements(), PodRequirements(requests=(("cpu", 100),)), PodRequirements(priority=5)])
    | SPECS,
    labels=LABELS,
    node=st.just("") | NODES,
    owner=st.just("") | OWNERS,
    created_s=TIMES_S,
    deletion_s=TIMES_S,
    phase=st.integers(0, 4),
    flags=st.integers(0, 127),
    deletion_cost=st.sampled_from([0, -7, 2**31 - 1]),
    pinned=st.just("") | NODES,
    volumes=_sorted_tuples(st.sampled_from(VOLUMES), 3).map(_by_id),
    numbers=st.dictionaries(
        st.sampled_from(["idle", "work", "é"]), st.sampled_from([0.0, -0.0, 2.5, -7.0, math.inf, math.nan]), max_size=2
    ).map(lambda found: tuple(sorted(found.items()))),
    pod_group=st.just("") | NAMES,
    nominated=st.just("") | NODES,
)
PLAIN_NODES = st.builds(
    NodeRow,
    provider_id=TEXTS,
    labels=LABELS,
    taints=_sorted_tuples(st.builds(TaintSpec, KEYS, TEXTS, st.integers(1, 3))),
    unschedulable=st.booleans(),
    allocatable=AMOUNTS,
    capacity=AMOUNTS,
    ready=st.booleans(),
    ready_ns=TIMES_NS,
    created_ns=TIMES_NS,
    group=st.just("") | GROUPS,
    scale_down_disabled=st.booleans(),
    deletion_delayed=st.booleans(),
    do_not_disrupt=st.booleans(),
    being_deleted=st.booleans(),
    price=st.none() | st.floats(0, 1e12),
    attach_limits=st.dictionaries(st.sampled_from(["csi-a", "csi-b"]), st.integers(0, 9), max_size=2).map(
        lambda found: tuple(sorted(found.items()))
    ),
    declared_features=_sorted_tuples(st.sampled_from(["F", "G"])),
    volume_drivers=st.none() | _sorted_tuples(st.sampled_from(["csi-a", "csi-b"])),
)
DAEMONSET_PODS = st.lists(st.tuples(NAMESPACES, SPECS, LABEL_PAIRS), max_size=2).map(tuple)
GROUP_ROWS = st.builds(
    Group,
    min_size=st.integers(0, 2),
    max_size=st.integers(2, 5),
    target_size=st.integers(0, 5),
    template=st.none() | PLAIN_NODES,
    daemonset_pods=DAEMONSET_PODS,
    price=st.none() | st.sampled_from([0.0, 0.25]),
    health=st.integers(0, 3),
    backoff_ns=TIMES_NS,
    zero_or_max=st.booleans(),
    last_scale_up_ns=TIMES_NS,
    last_deletion_ns=TIMES_NS,
    last_failure_ns=TIMES_NS,
)


def _volume(name: str) -> st.SearchStrategy[MountedVolume]:
    zone_labels = st.dictionaries(KEYS, TEXTS, max_size=1).map(lambda found: tuple(sorted(found.items())))
    return st.builds(
        MountedVolume, st.just(name), st.integers(0, 4), TEXTS, TEXTS, TERMS, zone_labels, st.booleans(), TEXTS
    )


TABLES: dict[str, st.SearchStrategy[Any]] = {
    "pods": st.dictionaries(st.tuples(NAMESPACES, NAMES), PODS, max_size=6),
    "volumes": st.fixed_dictionaries({name: _volume(name) for name in VOLUMES}),
    "nodes": st.dictionaries(NODES, PLAIN_NODES, max_size=3),
    "groups": st.dictionaries(GROUPS, GROUP_ROWS, max_size=2),
    "owners": st.dictionaries(
        OWNERS,
        st.tuples(
            st.integers(-1, 3),
            st.integers(-1, 3),
            SELECTORS,
            st.none() | st.builds(TemplatePod, NAMESPACES, SPECS, LABEL_PAIRS),
        ),
        max_size=2,
    ),
    "budgets": st.dictionaries(st.tuples(NAMESPACES, NAMES), st.tuples(SELECTORS, st.integers(-1, 3)), max_size=2),
    "namespaces": st.dictionaries(NAMESPACES, LABEL_PAIRS, max_size=2),
    "deletions": st.dictionaries(NODES, st.tuples(GROUPS, st.booleans(), TIMES_NS), max_size=1),
    "evictions": st.dictionaries(
        st.tuples(NAMESPACES, NAMES),
        st.builds(Eviction, st.just("gone"), st.none() | SPECS, LABEL_PAIRS, st.just("") | OWNERS, TIMES_NS),
        max_size=1,
    ),
    "pod_groups": st.dictionaries(
        st.tuples(NAMESPACES, NAMES),
        st.tuples(
            st.just("") | TEXTS,
            st.integers(0, 3),
            st.just("") | KEYS,
            st.booleans(),
            st.sampled_from([None, 0, 7]),
            TIMES_NS,
            st.integers(-1, 3),
            st.none() | st.builds(TemplatePod, NAMESPACES, SPECS, LABEL_PAIRS),
        ),
        max_size=2,
    ),
}
FATES = st.sampled_from(["keep", "keep", "other"])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Draw a small cluster that obeys the contract, dangling references included."""
    rows = {table: draw(strategy) for table, strategy in TABLES.items()}
    built = {
        "pods": _mounted(rows["pods"], rows["volumes"]),
        "owners": {uid: _owner(uid, *rest) for uid, rest in rows["owners"].items()},
        "budgets": {key: _budget(key, *rest) for key, rest in rows["budgets"].items()},
        "deletions": {node: DeletionInProgress(node, *rest) for node, rest in rows["deletions"].items()},
        "pod_groups": {key: _pod_group(key, *rest) for key, rest in rows["pod_groups"].items()},
    }
    return Cluster(**rows | built)


def _mounted(pods: dict[tuple[str, str], PodRow], volumes: dict[str, MountedVolume]) -> dict[tuple[str, str], PodRow]:
    """Return pods with the volumes that have the ids of theirs, where there are such."""
    return {
        key: pod._replace(volumes=tuple(volumes.get(one.id, one) for one in pod.volumes)) for key, pod in pods.items()
    }


def _owner(uid: str, desired: int, current: int, selector: Any, template: TemplatePod | None) -> Owner:
    kind, version = ("Job", "batch/v1") if template is None else ("DaemonSet", "apps/v1")
    return Owner(uid, kind, "x", "default", desired, current, version, selector, "Deployment/a/b", 7, template)


def _pod_group(key: tuple[str, str], problem: str, *rest: Any) -> PodGroup:
    object_ = f"PodGroup/{key[0]}/{key[1]}"
    return PodGroup(*key, object_, problem) if problem else PodGroup(*key, object_, "", *rest)


def _budget(key: tuple[str, str], selector: Any, allowed: int) -> DisruptionBudget:
    status = (allowed, 3, 2, 4, True, ("a", "b")) if allowed >= 0 else (-1, 0, 0, 0, False, ())
    return DisruptionBudget(*key, selector, *status, False, "50%", "")


CLUSTERS = clusters()
BOOLEANS = st.booleans()


@st.composite
def changes(draw: st.DrawFn, before: Cluster, others: st.SearchStrategy[Cluster] = CLUSTERS) -> Cluster:
    """Draw a cluster with some rows unchanged, some deleted, some new and some as in another cluster of `others`."""
    other = draw(others)
    tables = {}
    for table in ("pods", "volumes", "nodes", "groups", "owners", "budgets", "namespaces", "pod_groups"):
        old, new = getattr(before, table), getattr(other, table)
        rows = dict(old)
        for key in sorted(old.keys() | new.keys()):
            fate = draw(FATES)
            if fate == "other" and key in new:
                rows[key] = new[key]
            elif fate == "other":
                del rows[key]
        tables[table] = rows
    tables["pods"] = _mounted(tables["pods"], tables["volumes"])
    if draw(BOOLEANS):
        tables |= {"deletions": other.deletions, "evictions": other.evictions}
    else:
        tables |= {"deletions": before.deletions, "evictions": before.evictions}
    return replace(before, **tables)
