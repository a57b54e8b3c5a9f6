"""Small random clusters with every scheduling constraint, drawn such that constraints often interact."""

from random import Random

from tests.builders.rows import Labels, NodeRow, PodRow
from trimtab.planner.model.values import (
    FOLLOWS,
    LEADS,
    AffinityTerm,
    HostPort,
    LabelRequirement,
    MountedVolume,
    NodeAffinityTerm,
    PodClaim,
    PodRequirements,
    Selector,
    SpreadConstraint,
    TaintSpec,
    TolerationSpec,
)
from trimtab.planner.snapshot.columns import FLAG_GATED
from trimtab.v1.snapshot_pb2 import LabelOperator as Op
from trimtab.v1.snapshot_pb2 import PodPhase, TolerationOperator, VolumeState

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
KEYS = (HOST, ZONE, RACK)
NAMESPACES = ("a", "b", "c")
FEATURES = ("F", "G")
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def _some(random: Random, options: tuple[object, ...], most: int) -> list:
    return random.sample(options, random.randint(0, min(most, len(options))))


def pod_selector(random: Random) -> Selector | None:
    """Return None, an empty selector, or one or two requirements over "app", "tier" and "version"."""
    if random.random() < 0.15:
        return random.choice((None, ()))
    out = []
    for _ in range(random.choice((1, 1, 2))):
        key = random.choice(("app", "app", "tier", "version"))
        operator = random.choice((Op.IN, Op.IN, Op.NOT_IN, Op.EXISTS, Op.DOES_NOT_EXIST))
        values = tuple(random.sample(("x", "y", "z"), random.choice((1, 2)))) if operator <= Op.NOT_IN else ()
        out.append(LabelRequirement(key, operator, values))
    return tuple(out)


def namespace_selector(random: Random) -> Selector | None:
    """Mostly none; all, or one requirement over "team"."""
    kind = random.random()
    if kind < 0.6:
        return None
    if kind < 0.75:
        return ()
    operator = random.choice((Op.IN, Op.NOT_IN, Op.EXISTS, Op.DOES_NOT_EXIST))
    return (LabelRequirement("team", operator, ("red",) if operator <= Op.NOT_IN else ()),)


def affinity_term(random: Random) -> AffinityTerm:
    """Return a term over any topology key."""
    namespaces = tuple(_some(random, NAMESPACES, 2)) if random.random() < 0.3 else ()
    return AffinityTerm(pod_selector(random), namespaces, namespace_selector(random), random.choice(KEYS))


def spread(random: Random) -> SpreadConstraint:
    """Return a constraint with any policy."""
    return SpreadConstraint(
        random.choice((1, 1, 2)),
        random.choice(KEYS),
        pod_selector(random),
        random.choice((1, 1, 2, 5)),
        random.random() < 0.8,
        random.random() < 0.3,
        tuple(_some(random, ("version", "tier"), 2)) if random.random() < 0.3 else (),
    )


def node_term(random: Random) -> NodeAffinityTerm:
    """Return a term over labels and, rarely, names; some cannot be parsed."""
    expressions = []
    for _ in range(random.choice((0, 1, 1, 2))):
        operator = random.choice((Op.IN, Op.NOT_IN, Op.EXISTS, Op.DOES_NOT_EXIST, Op.GT, Op.LT))
        if operator in (Op.GT, Op.LT):
            values = (random.choice(("2", "+3", "-1", "x", "99999999999999999999")),)
        else:
            values = tuple(random.sample(("1", "2", "3", "a b", "za"), 2)) if operator <= Op.NOT_IN else ()
        expressions.append(LabelRequirement(random.choice(("size", "pool", ZONE)), operator, values))
    fields = []
    if random.random() < 0.15:
        names = tuple(random.sample(("n0", "n1", "n2", "gone"), random.choice((1, 1, 2))))
        fields.append(LabelRequirement("metadata.name", random.choice((Op.IN, Op.NOT_IN)), names))
    return NodeAffinityTerm(tuple(expressions), tuple(fields))


def node_terms(random: Random) -> tuple[NodeAffinityTerm, ...] | None:
    """Return None, or up to two alternatives."""
    return None if random.random() < 0.6 else tuple(node_term(random) for _ in range(random.choice((0, 1, 2, 2))))


def taint(random: Random) -> TaintSpec:
    """Return a taint of any effect."""
    return TaintSpec(random.choice(("t", "u")), random.choice(("", "1")), random.choice((1, 2, 3)))


def toleration(random: Random) -> TolerationSpec:
    """Return a toleration of any shape, operators that tolerate nothing included."""
    operator = random.choice((0, TolerationOperator.EQUAL, TolerationOperator.EXISTS, TolerationOperator.LT))
    key = random.choice(("t", "u", "", "node.kubernetes.io/unschedulable", "ToBeDeletedByClusterAutoscaler"))
    return TolerationSpec(key, operator, random.choice(("", "1")), random.choice((0, 0, 1, 2, 3)))


def spec(random: Random) -> PodRequirements:
    """Return a pod spec with a few random constraints."""

    def sometimes(share: float) -> bool:
        return random.random() < share

    disks = ("d1", "d2")
    affine = tuple(affinity_term(random) for _ in range(random.choice((0, 0, 0, 1, 2))))
    return PodRequirements(
        requests=tuple(
            sorted((r, random.choice((1, 2, 3))) for r in _some(random, ("cpu", "memory", "x/gpu", "weird"), 3))
        ),
        node_selector=(("pool", random.choice(("1", "2"))),) if sometimes(0.15) else (),
        node_affinity=node_terms(random) if sometimes(0.4) else None,
        tolerations=tuple(toleration(random) for _ in range(random.choice((0, 0, 1, 2)))),
        host_ports=tuple(
            HostPort(random.choice(("TCP", "UDP")), random.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2")), 80)
            for _ in range(random.choice((0, 0, 0, 1, 2)))
        ),
        pod_affinity=affine,
        pod_anti_affinity=tuple(affinity_term(random) for _ in range(random.choice((0, 0, 0, 1, 2)))),
        topology_spread=tuple(spread(random) for _ in range(random.choice((0, 0, 1, 2)))),
        unsupported=("resourceClaims",) if sometimes(0.03) else (),
        exclusive_disks=tuple(_some(random, disks, 1)) if sometimes(0.15) else (),
        read_only_disks=tuple(_some(random, disks, 1)) if sometimes(0.15) else (),
        node_features=tuple(sorted(_some(random, FEATURES, 2))) if sometimes(0.15) else (),
        # Pods with required affinity are not planned together.
        claims=(together(random),) if not affine and sometimes(0.2) else (),
    )


def together(random: Random) -> PodClaim:
    """Return a claim whose pods are planned together."""
    return PodClaim("x", random.choice(("a/one", "a/two")), None, "", None, random.choice((LEADS, FOLLOWS, FOLLOWS)))


def volume(random: Random, number: int) -> MountedVolume:
    """Return a volume of any state; few numbers, so that pods share some."""
    rare = Random(number * 7919)  # a volume's content depends only on its number
    state = rare.choice((VolumeState.BOUND,) * 6 + (VolumeState.WAIT_FOR_FIRST_CONSUMER, VolumeState.MISSING))
    zones = ((rare.choice((ZONE, BETA_ZONE)), rare.choice(("za", "zb", "za__zb", "za__"))),)
    return MountedVolume(
        f"a/v{number}",
        state,
        rare.choice(("", "disk", "disk", "unlimited")),
        rare.choice(("", "handle")),
        node_terms(rare) if rare.random() < 0.4 else None,
        zones if rare.random() < 0.3 else (),
        rare.random() < 0.3,
        "",
        rare.choice(("", "", "", "disk", "plugin")),
    )


def node(random: Random, number: int) -> NodeRow:
    """Return a node that may lack any label."""
    labels: Labels = {HOST: f"n{number}"} if random.random() < 0.9 else {}
    if random.random() < 0.9:
        labels[ZONE] = random.choice(("za", "zb", "zc"))
    if random.random() < 0.2:
        labels[BETA_ZONE] = random.choice(("za", "zb"))
    if random.random() < 0.6:
        labels[RACK] = random.choice(("r1", "r2"))
    if random.random() < 0.6:
        labels["size"] = random.choice(("1", "3", "x", "a"))
    if random.random() < 0.6:
        labels["pool"] = random.choice(("1", "2", "3"))
    amounts = {"cpu": random.randint(2, 9), "memory": random.randint(2, 9), "pods": random.randint(0, 6)}
    if random.random() < 0.5:
        amounts |= {"x/gpu": random.randint(0, 4), "weird": 1}
    return NodeRow(
        f"n{number}",
        labels,
        amounts,
        tuple(sorted({taint(random) for _ in range(random.choice((0, 0, 0, 1, 2)))})),
        random.random() < 0.1,
        (("disk", random.randint(0, 3)),) if random.random() < 0.5 else (),
        FEATURES if number == 0 else tuple(sorted(_some(random, FEATURES, 2))),
        random.choice((None, (), ("disk",), ("disk", "plugin"))),
    )


def pod(random: Random, number: int, specs: list[PodRequirements], node_count: int) -> PodRow:
    """Return a pod of one of the specs, on a node or not."""
    names = [f"n{i}" for i in range(node_count)]
    labels = {key: random.choice(("x", "y", "z")) for key in ("app", "tier", "version") if random.random() < 0.7}
    numbers = random.sample(range(8), random.choice((0, 0, 0, 1, 2)))
    return PodRow(
        f"p{number:02}",
        random.choice(specs),
        random.choice(NAMESPACES),
        labels,
        random.choice([*names, "unknown"]) if random.random() < 0.6 else "",
        random.choice([*names, "unknown"]) if random.random() < 0.08 else "",
        int(random.random() < 0.1),
        PodPhase.SUCCEEDED if random.random() < 0.05 else PodPhase.RUNNING,
        FLAG_GATED if random.random() < 0.03 else 0,
        tuple(volume(random, at) for at in sorted(numbers)),
    )


def rows(seed: int) -> tuple[list[NodeRow], list[PodRow], dict[str, Labels]]:
    """Return a random cluster: nodes, pods, listed namespaces."""
    random = Random(seed)
    nodes = [node(random, number) for number in range(random.randint(1, 7))]
    specs = [spec(random) for _ in range(random.randint(1, 6))]
    pods = [pod(random, number, specs, len(nodes)) for number in range(random.randint(1, 22))]
    listed = {name: {"team": random.choice(("red", "blue"))} for name in NAMESPACES if random.random() < 0.7}
    return nodes, pods, listed
