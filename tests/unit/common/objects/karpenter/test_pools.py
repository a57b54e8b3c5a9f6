"""NodePools of a dump as node groups: templates, members, sizes, settings, and what is said of odd ones."""

from typing import Any

import pytest

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.karpenter import requirement
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.objects.karpenter.offers import MachineOffer, OfferKey, labels_of
from trimtab.common.objects.karpenter.pool_settings import with_pool_settings
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
AMOUNTS = {"cpu": "2", "memory": "8Gi", "pods": "29"}


def offer(text: str, price: float | None = 0.1, **labels: str) -> MachineOffer:
    key = OfferKey(*text.split("/"))
    more = {name.replace("__", "/").replace("_", "-"): value for name, value in labels.items()}
    return MachineOffer(key, AMOUNTS, AMOUNTS, labels_of(key, more), price)


OFFERS = [offer("m5.large/z1/on-demand"), offer("m5.large/z2/spot", 0.04), offer("c6g.large/z1/on-demand", 0.08)]


def built(*objects: Json, offers: list[MachineOffer] | None = None) -> BuiltSnapshot:
    return build_snapshot(decode_objects([k8s.namespace(), *objects]), None, offers)


def groups(*objects: Json, offers: list[MachineOffer] | None = None) -> list[str]:
    return [group.id for group in built(*objects, offers=offers).snapshot.node_groups]


def asked(*objects: Json) -> plan_pb2.PlanSettings:
    settings = built(*objects, offers=OFFERS).settings
    assert settings is not None
    return settings


def test_a_pool_is_a_group_for_each_offering_that_it_allows() -> None:
    pool = kp.node_pool("web", [requirement(kp.CAPACITY_TYPE, "In", "on-demand")])
    assert groups(pool, offers=OFFERS) == ["web/c6g.large/z1/on-demand", "web/m5.large/z1/on-demand"]


def test_the_template_has_labels_and_taints_of_pool_and_offering_but_no_startup_taints() -> None:
    pool = kp.node_pool("web", labels={"team": "a"}, taints=["only=web:NoSchedule"], startup_taints=["cni:NoExecute"])
    found = built(pool, offers=OFFERS[:1])
    (group,) = found.snapshot.node_groups
    view = ClusterView(found.snapshot)
    labels = view.labels(group.template.label_set)
    assert labels[kp.POOL] == "web"
    assert labels["team"] == "a"
    assert labels[kp.INSTANCE_TYPE] == "m5.large"
    assert labels[kp.ZONE] == "z1"
    assert labels[kp.CAPACITY_TYPE] == "on-demand"
    assert labels["karpenter.k8s.aws/instance-family"] == "m5"
    assert [view.text(one.key) for one in group.template.taints] == ["only"]
    assert (group.price_per_hour, group.min_size, group.target_size) == (0.1, 0, 0)
    assert found.settings is not None
    assert list(found.settings.scale_up.startup_taints.keys) == ["cni"]


def test_nodes_are_in_the_group_of_their_labels_and_claims_without_node_are_on_their_way() -> None:
    claims = [
        kp.node_claim("c1", node="n1"),
        kp.node_claim("c2"),
        kp.node_claim("c3", offer="m5.large/z2/spot"),
    ]
    found = built(kp.node_pool(), kp.pool_node("n1"), *claims, offers=OFFERS).snapshot
    assert {node.name: node.node_group for node in found.nodes} == {"n1": "default/m5.large/z1/on-demand"}
    sizes = {group.id: group.target_size for group in found.node_groups}
    assert sizes["default/m5.large/z1/on-demand"] == 2
    assert sizes["default/m5.large/z2/spot"] == 1


def test_a_claim_that_is_being_deleted_or_not_launched_is_not_on_its_way() -> None:
    leaving = kp.node_claim("c1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    created = {**kp.node_claim("c2"), "metadata": {"name": "c2", "labels": {kp.POOL: "default"}}}
    found = built(kp.node_pool(), leaving, created, offers=OFFERS).snapshot
    assert {group.target_size for group in found.node_groups} == {0}


@pytest.mark.parametrize(("status", "grows"), [("True", True), ("Unknown", True), ("False", False)])
def test_a_pool_that_is_not_ready_gets_no_new_nodes(status: str, *, grows: bool) -> None:
    conditions = [{"type": "Ready", "status": status, "message": "NodeClass is gone"}]
    found = built({**kp.node_pool("web"), "status": {"conditions": conditions}}, offers=OFFERS)
    assert bool(found.snapshot.node_groups) is grows
    assert (
        "NodePool web: its condition Ready is False: NodeClass is gone; the pool gets no new nodes" in found.notes
    ) is (not grows)


def test_a_node_is_being_deleted_if_its_object_or_its_claim_is() -> None:
    claims = [kp.node_claim(f"c{i}", node=f"n{i}") for i in (1, 2)]
    nodes = [kp.pool_node(f"n{i}") for i in (1, 2, 3)]
    for one in (claims[1], nodes[2]):
        one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = built(kp.node_pool(), *claims, *nodes, offers=OFFERS).snapshot
    assert [node.name for node in found.nodes if node.being_deleted] == ["n2", "n3"]


def test_a_node_whose_offering_the_pool_does_not_have_keeps_a_group_that_does_not_grow() -> None:
    pool = kp.node_pool("web", [requirement(kp.INSTANCE_TYPE, "In", "m5.large")])
    found = built(pool, kp.pool_node("n1", "web", "m5.24xlarge/z1/on-demand"), offers=OFFERS).snapshot
    (group,) = [one for one in found.node_groups if one.id == "web/m5.24xlarge/z1/on-demand"]
    assert (group.max_size, group.target_size, found.nodes[0].node_group) == (1, 1, group.id)
    assert not group.HasField("price_per_hour")


def test_the_price_of_a_node_is_known_though_its_pool_no_longer_allows_its_offering() -> None:
    pool = kp.node_pool("web", [requirement(kp.INSTANCE_TYPE, "In", "c6g.large")])
    found = built(pool, kp.pool_node("n1", "web"), offers=OFFERS).snapshot
    assert [one.price_per_hour for one in found.node_groups if one.id == found.nodes[0].node_group] == [0.1]


def test_without_offerings_the_nodes_and_claims_show_what_there_is() -> None:
    nodes = [kp.pool_node("n1"), k8s.node("other", labels={kp.INSTANCE_TYPE: "r5.large", kp.ZONE: "z3"})]
    claim = kp.node_claim("c1", offer="c5.large/z2/spot", capacity=AMOUNTS)
    master = k8s.node("m", labels={kp.INSTANCE_TYPE: "x1.big", "node-role.kubernetes.io/control-plane": ""})
    assert groups(kp.node_pool(), *nodes, master, claim) == [
        "default/c5.large/z2/spot",
        "default/m5.large/z1/on-demand",
        "default/r5.large/z3/on-demand",
    ]


def test_an_offering_of_no_zone_is_in_every_zone_of_nodes_and_requirements() -> None:
    pool = kp.node_pool("web", [requirement(kp.ZONE, "In", "z7", "z1")])
    anywhere = MachineOffer(OfferKey("m5.large", "", "spot"), AMOUNTS, AMOUNTS, {kp.CAPACITY_TYPE: "spot"}, 0.1)
    assert groups(pool, k8s.node("n", zone="z2"), offers=[anywhere]) == ["web/m5.large/z1/spot", "web/m5.large/z7/spot"]


def test_labels_of_the_pools_own_with_several_values_are_a_group_each() -> None:
    pool = kp.node_pool("web", [requirement("team", "In", "a", "b")])
    node = kp.pool_node("n1", "web", labels={"team": "b"})
    found = built(pool, node, offers=OFFERS[:1]).snapshot
    assert [group.id for group in found.node_groups] == ["web/m5.large/z1/on-demand/a", "web/m5.large/z1/on-demand/b"]
    assert found.nodes[0].node_group == "web/m5.large/z1/on-demand/b"


def test_nodes_of_a_declared_group_stay_there() -> None:
    declared = k8s.node_group("mine", selector={kp.POOL: "default"})
    found = built(kp.node_pool(), kp.pool_node("n1"), declared, offers=OFFERS).snapshot
    assert found.nodes[0].node_group == "mine"
    assert {group.target_size for group in found.node_groups if group.id != "mine"} == {0}


def test_limits_hold_for_the_nodes_of_their_pool() -> None:
    settings = asked(kp.node_pool("web", limits={"cpu": "10", "memory": "1Gi", "nodes": "7"}))
    assert [(one.resource, one.maximum, dict(one.nodes.match_labels)) for one in settings.planner.limits] == [
        ("cpu", 10_000, {kp.POOL: "web"}),
        ("memory", 1 << 30, {kp.POOL: "web"}),
        ("nodes", 7, {kp.POOL: "web"}),
    ]


def test_weights_rank_the_groups_of_pools_by_their_names() -> None:
    settings = asked(kp.node_pool("a.b", weight=10), kp.node_pool("c"), kp.node_pool("d", weight=10)).scale_up
    assert list(settings.expanders) == [plan_pb2.Expander.PRIORITY, plan_pb2.Expander.PRICE]
    ranks = [(one.rank, list(one.patterns)) for one in settings.priority.ranks]
    assert ranks == [(10, [r"^a\.b/", "^d/"]), (0, ["^c/"])]


def test_equal_weights_leave_the_choice_to_money() -> None:
    assert not asked(kp.node_pool("a", weight=5), kp.node_pool("b", weight=5)).scale_up.expanders


def test_a_pool_without_budgets_has_that_of_karpenter() -> None:
    (budget,) = asked(kp.node_pool("web")).planner.disruption_budgets
    assert (budget.max_nodes, dict(budget.nodes.match_labels)) == ("10%", {kp.POOL: "web"})


def test_budgets_keep_reasons_and_schedule() -> None:
    given = {"nodes": "0", "reasons": ["Underutilized"], "schedule": "0 9 * * mon-fri", "duration": "8h30m"}
    (budget,) = asked(kp.node_pool(disruption={"budgets": [given]})).planner.disruption_budgets
    assert (budget.max_nodes, list(budget.reasons), budget.schedule) == ("0", ["Underutilized"], "0 9 * * mon-fri")
    assert budget.duration.seconds == 8 * 3600 + 1800


@pytest.mark.parametrize(
    ("disruption", "unneeded_s", "consolidation"),
    [
        ({"consolidateAfter": "1m30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}, 90, "UNSPECIFIED"),
        ({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}, 0, "WHEN_EMPTY"),
        ({"consolidateAfter": "Never"}, None, "NEVER"),
    ],
)
def test_when_nodes_of_a_pool_may_go(disruption: Json, unneeded_s: int | None, consolidation: str) -> None:
    settings = asked(kp.node_pool(disruption=disruption))
    of_group = settings.node_groups["default/m5.large/z1/on-demand"]
    for field in ("unneeded_time", "consolidate_after"):
        assert of_group.HasField(field) is (unneeded_s is not None)
        assert getattr(of_group, field).seconds == (unneeded_s or 0)
    assert not settings.HasField("replacement")
    assert of_group.consolidation == plan_pb2.Consolidation.Code.Value(consolidation)
    assert [one.max_nodes for one in settings.planner.disruption_budgets] == ["10%"]


def test_each_pool_has_its_own_consolidate_after_unless_the_settings_have_one_for_all() -> None:
    pools = [kp.node_pool(name, disruption={"consolidateAfter": after}) for name, after in (("a", "0s"), ("b", "8h"))]
    settings = asked(*pools)
    of_pools = {name.split("/")[0]: one.consolidate_after.seconds for name, one in settings.node_groups.items()}
    assert of_pools == {"a": 0, "b": 8 * 3600}
    given = plan_pb2.PlanSettings()
    assert with_pool_settings(given, settings) == settings
    given.replacement.consolidate_after.seconds = 60
    merged = with_pool_settings(given, settings)
    assert merged.replacement.consolidate_after.seconds == 60
    assert not any(one.HasField("consolidate_after") for one in merged.node_groups.values())


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            kp.node_pool("p", [requirement("a", "Like", "b")]),
            "spec.template.spec.requirements[0].operator: 'Like' is no",
        ),
        (kp.node_pool("p", [requirement("a", "Gt", "x")]), "spec.template.spec.requirements[0].values: Gt takes one"),
        (kp.node_pool("p", [requirement("", "Exists")]), "spec.template.spec.requirements[0].key: it is missing"),
        (kp.node_pool("p", [requirement("a", "In")]), "spec.template.spec.requirements[0].values: In has no value"),
        (kp.node_pool("p", taints=["a:Sometimes"]), "spec.template.spec.taints[0].effect: 'Sometimes' is unknown"),
        (kp.node_pool("p", limits={"cpu": "many"}), "spec.limits.cpu: 'many' is not a quantity"),
        (kp.node_pool("p", limits={"cpu": "-1"}), "spec.limits.cpu: -1 is negative"),
        (
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}},
            "spec.template: it is missing",
        ),
    ],
)
def test_a_pool_that_cannot_be_used_is_named_with_its_field_and_all_others_go_on(pool: Json, said: str) -> None:
    found = built(pool, kp.node_pool("good"), kp.pool_node("n1", "p"), offers=OFFERS)
    assert any(note.startswith(f"NodePool p: {said}") for note in found.notes), found.notes
    of_bad = [group for group in found.snapshot.node_groups if group.id.startswith("p/")]
    assert [(group.max_size, group.target_size) for group in of_bad] == [(1, 1)]
    assert len(found.snapshot.node_groups) == 1 + len(OFFERS)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"nodes": "x"}, "nodes: 'x' is neither a number nor a share"),
        ({"nodes": "101%"}, "nodes: '101%' is neither a number nor a share"),
        ({"nodes": "-1"}, "nodes: '-1' is neither a number nor a share"),
        ({}, "nodes: '' is neither a number nor a share"),
        ({"nodes": "1", "reasons": ["Bored"]}, "reasons: 'Bored' is unknown"),
        ({"nodes": "1", "schedule": "@daily"}, "duration: it is missing"),
        ({"nodes": "1", "duration": "1h"}, "schedule: it is missing"),
        ({"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}, "schedule: '61 * * * *' is not a schedule"),
        ({"nodes": "1", "schedule": "* * * *", "duration": "1h"}, "schedule: '* * * *' is not a schedule"),
        ({"nodes": "1", "schedule": "@daily", "duration": "soon"}, "duration: 'soon' is not a duration"),
        (
            {"nodes": "1", "schedule": "@daily", "duration": f"{'9' * 30}h"},
            f"duration: '{'9' * 30}h' is not a duration",
        ),
        ({"nodes": "1", "schedule": "@daily", "duration": "-1h"}, "duration: '-1h' is not a duration"),
    ],
)
def test_a_budget_that_cannot_be_read_counts_as_no_node(budget: Json, said: str) -> None:
    found = built(kp.node_pool("p", disruption={"budgets": [budget]}), offers=OFFERS)
    assert any(note.startswith(f"NodePool p: spec.disruption.budgets[0].{said}") for note in found.notes), found.notes
    assert found.settings is not None
    assert [one.max_nodes for one in found.settings.planner.disruption_budgets] == ["0"]


def test_a_pool_with_too_few_values_for_a_requirement_gets_no_new_nodes_which_is_said() -> None:
    pool = kp.node_pool("p", [requirement(kp.INSTANCE_TYPE, "Exists", min_values=3)])
    found = built(pool, offers=OFFERS)
    (said,) = [note for note in found.notes if "minValues" in note]
    assert "requirements[0].minValues: 3 values of node.kubernetes.io/instance-type are required, there are 2" in said
    assert said.endswith("so it gets no new nodes")
    assert len(found.snapshot.node_groups) == 0
    pool = kp.node_pool("p", [requirement(kp.INSTANCE_TYPE, "Exists", min_values=2)])
    found = built(pool, offers=OFFERS)
    assert not [note for note in found.notes if "minValues" in note]
    assert len(found.snapshot.node_groups) == len(OFFERS)


def test_too_few_values_among_the_offerings_in_use_are_said_and_the_pool_grows() -> None:
    pool = kp.node_pool("p", [requirement(kp.INSTANCE_TYPE, "Exists", min_values=3)])
    found = built(pool, kp.pool_node("n1", "p"))
    (said,) = [note for note in found.notes if "minValues" in note]
    assert said.endswith("there are 1; those not in use may be among the rest")
    assert [group.max_size > 1 for group in found.snapshot.node_groups] == [True]


def sized(name: str, cpu: str, memory: str) -> MachineOffer:
    return offer(f"{name}/z1/on-demand")._replace(allocatable={"cpu": cpu, "memory": memory, "pods": "110"})


SIZES = [sized("m5.large", "2", "8Gi"), sized("m5.xlarge", "4", "16Gi"), sized("r5.xlarge", "4", "32Gi")]


def cpu_of_groups(*objects: Json, offers: list[MachineOffer] = SIZES) -> dict[str, int]:
    """Return the milli-cores of the template of each group."""
    snapshot = built(*objects, offers=offers).snapshot
    place = list(snapshot.resources).index("cpu")
    return {group.id.split("/")[1]: group.template.allocatable[place] for group in snapshot.node_groups}


def test_a_new_node_is_planned_to_hold_what_as_many_types_could_hold_as_min_values_asks_for() -> None:
    def at_least(count: int) -> dict[str, int]:
        return cpu_of_groups(kp.node_pool("p", [requirement(kp.INSTANCE_TYPE, "Exists", min_values=count)]))

    assert at_least(1) == {"m5.large": 2000, "m5.xlarge": 4000, "r5.xlarge": 4000}
    assert at_least(2) == {"m5.large": 2000, "m5.xlarge": 4000, "r5.xlarge": 4000}
    assert at_least(3) == {"m5.large": 2000, "m5.xlarge": 2000, "r5.xlarge": 2000}


@pytest.mark.parametrize(("key", "other"), [(kp.ZONE, "z2/on-demand"), (kp.CAPACITY_TYPE, "z1/spot")])
def test_a_new_node_is_planned_to_hold_what_types_of_as_many_zones_or_capacity_types_could_hold(
    key: str, other: str
) -> None:
    """The larger type is sold in one zone, of one capacity type."""
    sizes = {one.labels[kp.INSTANCE_TYPE]: one for one in SIZES}
    small = sizes["m5.large"]
    there = dict(zip((kp.ZONE, kp.CAPACITY_TYPE), other.split("/"), strict=True))
    elsewhere = small._replace(key=OfferKey("m5.large", *other.split("/")), labels={**small.labels, **there})
    offers = [sizes["m5.xlarge"], small, elsewhere]

    def at_least(count: int) -> dict[str, int]:
        return cpu_of_groups(kp.node_pool("p", [requirement(key, "Exists", min_values=count)]), offers=offers)

    assert at_least(1) == {"m5.large": 2000, "m5.xlarge": 4000}
    assert at_least(2) == {"m5.large": 2000, "m5.xlarge": 2000}
    assert at_least(3) == {}


def test_a_type_on_its_way_has_all_its_room_whatever_min_values_lets_new_nodes_hold() -> None:
    pool = kp.node_pool("p", [requirement(kp.INSTANCE_TYPE, "Exists", min_values=3)])
    claim = kp.node_claim("c", "p", "m5.xlarge/z1/on-demand")
    assert cpu_of_groups(pool, claim) == {"m5.large": 2000, "m5.xlarge": 4000, "r5.xlarge": 2000}


def test_a_label_of_machines_that_no_offering_has_is_not_checked_which_is_said() -> None:
    pool = kp.node_pool("p", [requirement("karpenter.k8s.aws/instance-hypervisor", "In", "nitro")])
    found = built(pool, offers=OFFERS)
    assert len(found.snapshot.node_groups) == len(OFFERS)
    assert any("no offering states its karpenter.k8s.aws/instance-hypervisor" in note for note in found.notes)


def test_a_label_that_some_offerings_have_is_required_of_all() -> None:
    offers = [*OFFERS[1:], offer("m5.large/z1/on-demand", karpenter_k8s_aws__instance="x")]
    offers[-1] = offers[-1]._replace(labels={**offers[-1].labels, "karpenter.k8s.aws/instance-hypervisor": "nitro"})
    pool = kp.node_pool("p", [requirement("karpenter.k8s.aws/instance-hypervisor", "In", "nitro")])
    assert groups(pool, offers=offers) == ["p/m5.large/z1/on-demand"]


def test_pools_of_a_fixed_size_or_being_deleted_do_not_grow() -> None:
    deleted = kp.node_pool("b")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert groups(kp.node_pool("a", replicas=3), deleted, offers=OFFERS) == []


def test_nodes_of_a_pool_that_is_not_there_are_in_no_group() -> None:
    found = built(kp.node_pool("a"), kp.pool_node("n1", "gone"), offers=OFFERS)
    assert found.snapshot.nodes[0].node_group == ""
    assert "NodePool gone: it is not in the input, so 1 node is in no node group" in found.notes


def test_the_ages_at_which_karpenter_replaces_nodes_are_noted() -> None:
    pool = kp.node_pool("a")
    pool["spec"]["template"]["spec"]["expireAfter"] = "720h"
    assert any(note.startswith("NodePool a: expireAfter") for note in built(pool, offers=OFFERS).notes)


def test_pools_of_the_old_version_are_read_as_well() -> None:
    old = {**kp.node_pool("web"), "apiVersion": "karpenter.sh/v1beta1"}
    assert groups(old, offers=OFFERS[:1]) == ["web/m5.large/z1/on-demand"]


def test_the_order_of_objects_and_offerings_changes_nothing() -> None:
    objects = [kp.node_pool("b", weight=3), kp.node_pool("a"), kp.pool_node("n1", "a"), kp.pool_node("n2", "b")]
    one, other = built(*objects, offers=OFFERS), built(*reversed(objects), offers=OFFERS[::-1])
    assert one.snapshot.SerializeToString(deterministic=True) == other.snapshot.SerializeToString(deterministic=True)
    assert one.settings == other.settings


@pytest.mark.parametrize("key", ["karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/scale-down-disabled"])
def test_a_node_that_its_operator_protects_stays(key: str) -> None:
    def protected(**annotations: str) -> bool:
        (node,) = built(k8s.node("n1", annotations={key: "true", **annotations})).snapshot.nodes
        return node.do_not_disrupt if key.startswith("karpenter") else node.scale_down_disabled

    assert protected()
    assert not protected(**{"trimtab.dev/steered": key})
