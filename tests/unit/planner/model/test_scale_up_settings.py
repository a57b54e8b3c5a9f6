"""Settings of scale-up: defaults, chains of expanders, patterns, taints, and errors that name the field."""

import re

import pytest
from google.protobuf.json_format import ParseDict

from trimtab.planner.model.settings import (
    PriorityRank,
    Readiness,
    ScaleUpSettings,
    SettingsError,
    TaintNames,
    resolve_scale_up,
)
from trimtab.v1 import plan_pb2

Expander = plan_pb2.Expander


def resolved(**given: object) -> ScaleUpSettings:
    return resolve_scale_up(ParseDict({"scaleUp": given}, plan_pb2.PlanSettings()))


def ranked(*patterns: str, rank: int = 1) -> dict[str, object]:
    return {"expanders": ["PRIORITY"], "priority": {"ranks": [{"rank": rank, "patterns": list(patterns)}]}}


def test_nothing_given_means_the_defaults() -> None:
    assert resolved() == ScaleUpSettings()
    assert resolved().expanders == (Expander.LEAST_WASTE, Expander.RANDOM)
    assert resolved().max_new_nodes == 1000
    assert resolved().prefer_template


def test_every_field_is_read() -> None:
    given = resolved(
        enabled=False,
        balanceSimilarNodeGroups=True,
        highestPriority={"label": "rank"},
        templateSource="PREFER_NODE",
        newPodScaleUpDelay="1.5s",
        forceDaemonsets=True,
        startupTaints={"keys": ["a"], "prefixes": ["b/"]},
        statusTaints={"keys": ["c"]},
        schedulerNames=["volcano"],
        maxNewNodes=7,
    )
    assert given == ScaleUpSettings(
        enabled=False,
        balance_similar=True,
        priority_label="rank",
        prefer_template=False,
        new_pod_delay_ns=1_500_000_000,
        force_daemonsets=True,
        readiness=Readiness(TaintNames(frozenset({"a"}), ("b/",)), TaintNames(frozenset({"c"}))),
        scheduler_names=frozenset({"volcano"}),
        max_new_nodes=7,
    )


def test_a_chain_of_expanders_ends_with_random_listed_or_not() -> None:
    expected = (Expander.PRICE, Expander.MOST_PODS, Expander.RANDOM)
    assert resolved(expanders=["PRICE", "MOST_PODS"]).expanders == expected
    assert resolved(expanders=["PRICE", "MOST_PODS", "RANDOM"]).expanders == expected
    assert resolved(expanders=["RANDOM"]).expanders == (Expander.RANDOM,)
    assert resolved(expanders=["CHEAPEST_PLAN", "PRICE"]).expanders[0] == Expander.CHEAPEST_PLAN


def test_ranks_come_highest_first() -> None:
    given = resolved(
        expanders=["PRIORITY"],
        priority={"ranks": [{"rank": -3, "patterns": [".*"]}, {"rank": 10, "patterns": ["^spot-", "cheap$"]}]},
    )
    assert given.priority == (
        PriorityRank(10, (re.compile("^spot-"), re.compile("cheap$"))),
        PriorityRank(-3, (re.compile(".*"),)),
    )


@pytest.mark.parametrize("pattern", [r"a\.b", r"[(?=]x", r"[]*+]+", r"\(?=x", r"\++", "(?i)spot", "(?:a|b){2,3}?", "é"])
def test_a_pattern_that_re2_reads_alike_is_compiled(pattern: str) -> None:
    assert resolved(**ranked(pattern)).priority[0].patterns == (re.compile(pattern),)


WITHOUT_RE2 = ["a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?P<n>a)(?P=n)", "(?>a)", "a*+", "(a)?(?(1)b|c)"]


@pytest.mark.parametrize("pattern", [*WITHOUT_RE2, "[[:alpha:]]", "a(", "*", "[z-a]"])
def test_a_pattern_that_cannot_be_used_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(repr(pattern))) as caught:
        resolved(**ranked("fine", pattern))
    assert caught.value.field == "scale_up.priority.ranks[0].patterns[1]"


def test_taints_are_known_by_whole_keys_and_by_beginnings() -> None:
    names = TaintNames(frozenset({"a"}), ("b/",))
    assert [key for key in ("a", "ab", "b/", "b/c", "b", "") if names.match(key)] == ["a", "b/", "b/c"]
    assert not TaintNames().match("")


ONE_RANK = {"rank": 1, "patterns": ["a"]}
WRONG: dict[str, dict[str, object]] = {
    "scale_up.expanders[0]": {"expanders": [0]},
    "scale_up.expanders[1]": {"expanders": ["PRICE", 99]},
    "scale_up.expanders[2]": {"expanders": ["PRICE", "MOST_PODS", "PRICE"]},
    "scale_up.expanders[0] ": {"expanders": ["RANDOM", "PRICE"]},
    "scale_up.expanders[1] ": {"expanders": ["PRICE", "CHEAPEST_PLAN"]},
    "scale_up.priority.ranks": {"expanders": ["PRIORITY"]},
    "scale_up.priority.ranks[1].rank": {"priority": {"ranks": [ONE_RANK, ONE_RANK]}},
    "scale_up.priority.ranks[0].patterns": {"priority": {"ranks": [{"rank": 1}]}},
    "scale_up.priority.ranks[0].patterns[0]": {"priority": {"ranks": [{"rank": 1, "patterns": ["("]}]}},
    "scale_up.template_source": {"templateSource": 9},
    "scale_up.new_pod_scale_up_delay": {"newPodScaleUpDelay": "-1s"},
    "scale_up.startup_taints.keys[0]": {"startupTaints": {"keys": [""]}},
    "scale_up.startup_taints.prefixes[1]": {"startupTaints": {"prefixes": ["a", ""]}},
    "scale_up.status_taints.keys[0]": {"statusTaints": {"keys": [""]}},
    "scale_up.scheduler_names[0]": {"schedulerNames": [""]},
    "scale_up.max_new_nodes": {"maxNewNodes": 0},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_value_that_cannot_be_meant_is_refused_by_name(field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolved(**WRONG[field])
    assert caught.value.field == field.strip()
    assert caught.value.problem
