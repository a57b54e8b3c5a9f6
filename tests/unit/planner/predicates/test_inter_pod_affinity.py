"""InterPodAffinity, case by case."""

import pytest

from tests.builders.fitting import HOST, ZONE, equals, fitting, node, pending, reasons, requires
from tests.builders.rows import Labels, PodRow
from trimtab.planner.model.values import AffinityTerm, PodRequirements, Selector

PLAIN = PodRequirements()
NODES = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4")]


def near(selector: Selector | None, key: str = ZONE, **fields: object) -> AffinityTerm:
    return AffinityTerm(selector, (), None, key)._replace(**fields)


def running(name: str, at: str, labels: Labels, namespace: str = "default", spec: PodRequirements = PLAIN) -> PodRow:
    return PodRow(name, spec, namespace, labels, at)


WEB = running("web", "n1", {"app": "web"})


def test_affinity_wants_a_domain_with_a_match() -> None:
    spec = PodRequirements(pod_affinity=(near(equals(app="web")),))
    assert fitting(pending(spec), NODES, [WEB]) == {"n1", "n2"}
    assert reasons(pending(spec), NODES, [WEB])["n4"] == ["POD_AFFINITY_NOT_MATCHED"]


def test_all_terms_must_be_matched_by_one_pod() -> None:
    spec = PodRequirements(pod_affinity=(near(equals(app="web"), HOST), near(equals(tier="db"), HOST)))
    apart = [WEB, running("db", "n1", {"tier": "db"})]
    both = running("both", "n2", {"app": "web", "tier": "db"})
    assert fitting(pending(spec), NODES, apart) == set()
    assert fitting(pending(spec), NODES, [*apart, both]) == {"n2"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"app": "web"}, {"n1", "n2", "n3"}, id="matching itself it starts the group where the key is"),
        pytest.param({}, set(), id="not matching itself it waits"),
    ],
)
def test_the_first_pod_of_a_group(labels: Labels, expected: set[str]) -> None:
    spec = PodRequirements(pod_affinity=(near(equals(app="web")),))
    assert fitting(pending(spec, labels), NODES) == expected


def test_a_match_on_a_node_without_the_key_does_not_end_the_first_pod_rule() -> None:
    spec = PodRequirements(pod_affinity=(near(equals(app="web")),))
    lost = running("lost", "n4", {"app": "web"})
    assert fitting(pending(spec, {"app": "web"}), NODES, [lost]) == {"n1", "n2", "n3"}


def test_anti_affinity_keeps_away_and_does_not_mind_nodes_without_the_key() -> None:
    spec = PodRequirements(pod_anti_affinity=(near(equals(app="web")),))
    assert fitting(pending(spec), NODES, [WEB]) == {"n3", "n4"}
    assert reasons(pending(spec), NODES, [WEB])["n2"] == ["POD_ANTI_AFFINITY_VIOLATED"]


def test_anti_affinity_of_a_running_pod_keeps_others_away() -> None:
    shy = running("shy", "n1", {}, spec=PodRequirements(pod_anti_affinity=(near(equals(app="web"), HOST),)))
    assert fitting(pending(PodRequirements(), {"app": "web"}), NODES, [shy]) == {"n2", "n3", "n4"}
    assert reasons(pending(PodRequirements(), {"app": "web"}), NODES, [shy])["n1"] == [
        "EXISTING_POD_ANTI_AFFINITY_VIOLATED"
    ]
    assert fitting(pending(PodRequirements(), {"app": "db"}), NODES, [shy]) == {"n1", "n2", "n3", "n4"}


def test_anti_affinity_to_oneself_means_one_for_each_domain() -> None:
    spec = PodRequirements(pod_anti_affinity=(near(equals(app="web")),))
    first = running("first", "n3", {"app": "web"}, spec=spec)
    assert fitting(pending(spec, {"app": "web"}), NODES, [first]) == {"n1", "n2", "n4"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, {"n1", "n2", "n3", "n4"}, id="no selector matches no pod"),
        pytest.param((), {"n3", "n4"}, id="an empty selector matches every pod"),
        pytest.param((requires("nokey", "NotIn", "x"),), {"n3", "n4"}, id="NotIn matches a missing label"),
        pytest.param((requires("app", "DoesNotExist"),), {"n1", "n2", "n3", "n4"}, id="DoesNotExist"),
    ],
)
def test_selectors_of_anti_affinity(selector: Selector | None, expected: set[str]) -> None:
    assert fitting(pending(PodRequirements(pod_anti_affinity=(near(selector),))), NODES, [WEB]) == expected


@pytest.mark.parametrize(
    ("term", "kept_away"),
    [
        pytest.param(near(equals(app="web")), False, id="own namespace only"),
        pytest.param(near(equals(app="web"), namespaces=("other",)), True, id="by name"),
        pytest.param(near(equals(app="web"), namespace_selector=equals(team="red")), True, id="by label"),
        pytest.param(near(equals(app="web"), namespace_selector=equals(team="blue")), False, id="by another label"),
        pytest.param(near(equals(app="web"), namespace_selector=()), True, id="every namespace"),
        pytest.param(
            near(equals(app="web"), namespaces=("default",), namespace_selector=equals(team="red")),
            True,
            id="by label in addition to names",
        ),
    ],
)
def test_namespaces_of_terms(term: AffinityTerm, kept_away: bool) -> None:
    other = running("other", "n1", {"app": "web"}, "other")
    listed = {"other": {"team": "red"}, "default": {}}
    fits = fitting(pending(PodRequirements(pod_anti_affinity=(term,))), NODES, [other], namespaces=listed)
    assert fits == ({"n3", "n4"} if kept_away else {"n1", "n2", "n3", "n4"})


def test_a_namespace_selector_that_needs_no_label_selects_listed_namespaces_for_the_incoming_pod() -> None:
    term = near(equals(app="web"), namespace_selector=(requires("team", "NotIn", "red"),))
    asked = pending(PodRequirements(pod_anti_affinity=(term,)))
    other = running("other", "n1", {"app": "web"}, "other")
    assert fitting(asked, NODES, [other], namespaces={"other": {"team": "red"}}) == {"n1", "n2", "n3", "n4"}
    assert fitting(asked, NODES, [other], namespaces={"other": {}}) == {"n3", "n4"}
    assert fitting(asked, NODES, [other], namespaces={}) == {"n1", "n2", "n3", "n4"}
    shy = running("shy", "n1", {}, "other", PodRequirements(pod_anti_affinity=(term,)))
    red = pending(PodRequirements(), {"app": "web"}, "red")
    assert fitting(red, NODES, [shy], namespaces={"red": {"team": "red"}}) == {"n1", "n2", "n3", "n4"}
    assert fitting(red, NODES, [shy], namespaces={}) == {"n3", "n4"}


def test_terminating_pods_count_for_affinity() -> None:
    spec = PodRequirements(pod_affinity=(near(equals(app="web")),))
    assert fitting(pending(spec), NODES, [WEB._replace(deletion_s=1)]) == {"n1", "n2"}


def test_two_terms_with_one_key_both_keep_away() -> None:
    spec = PodRequirements(pod_anti_affinity=(near(equals(app="web"), HOST), near(equals(app="db"), HOST)))
    assert fitting(pending(spec), NODES, [WEB, running("db", "n2", {"app": "db"})]) == {"n3", "n4"}
