"""Karpenter's Balanced scores: its numbers, and its verdicts by the least score."""

from pathlib import Path

import pytest
import yaml

from tests.builders.kubernetes import Json
from tests.builders.replacement import WEB, group, plan, web

DATA = yaml.safe_load((Path(__file__).parent / "data" / "karpenter_balanced.yaml").read_text(encoding="utf-8"))
COUNT = 18 + 5 + 26
"""Cases of balanced_test.go, balanced_adversarial_test.go and balanced_scoring_test.go."""
STAYS = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}


def pool(case: Json) -> list[Json]:
    """Return a pool of which one node may go: its pods fit on others, or on a new node alone if it is replaced."""
    names = [f"n{number}" for number in range(case["nodes"])]
    rest = case["pods"] - case["moved"]
    room = 0 if "by" in case else case["moved"]
    found = [WEB, *group("pool", str(1 + case["pods"]), "64Gi", case["price"], names, max_size=len(names))]
    for one in found:
        if one["kind"] == "Node" and one["metadata"]["name"] != "n0":
            one["metadata"]["annotations"] = STAYS
    if "by" in case:
        found += group("cheaper", str(case["moved"]), "64Gi", case["by"])
    found += [web(f"moved-{number}", "n0", memory="1Mi") for number in range(case["moved"])]
    for number in range(rest):
        at = names[1 + number % (len(names) - 1)]
        found.append(web(f"stays-{number}", at, _filler(case, number, room), "1Mi"))
    if not rest:
        found += group("elsewhere", "99", "64Gi", None, ["other"])
    return found


def _filler(case: Json, number: int, room: int) -> str:
    """Return the cores of a pod that stays: those of a node leave as much room as is asked for."""
    others = case["nodes"] - 1
    count = len(range(number % others, case["pods"] - case["moved"], others))
    left = 1 + case["pods"] - room
    return f"{1000 * left // count}m"


@pytest.mark.parametrize("case", [pytest.param(one, id=one["name"]) for one in DATA["cases"]])
def test_the_score_is_karpenters_and_so_is_the_verdict(case: Json) -> None:
    least = 1 / case.get("k", 2)
    usual = {"stabilityMargin": 0, "minSavingShare": 0, "maxWaves": 1}
    found = plan(pool(case), settings=usual)
    assert found.waves == [(["n0"], ["cheaper"] if "by" in case else [])]
    assert found.decision.frontier[0].balanced_score == pytest.approx(case["score"], rel=1e-4)
    strict = plan(pool(case), settings=usual | {"minBalancedScore": least * (1 - 1e-9)})
    assert bool(strict.waves) == case["approved"]


def test_each_score_of_the_source_is_restated_once_or_left_out_for_a_reason() -> None:
    of = [line for one in (*DATA["cases"], *DATA["skipped"]) for line in one.get("of", [])]
    assert len(set(of)) == len(of) == COUNT
