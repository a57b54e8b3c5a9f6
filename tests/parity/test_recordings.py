"""The recordings themselves: large enough, every plugin accepts and refuses, no dangling references.

In the nightly tier where all are read, since they seldom change.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.parity.recordings import NASTY, SETS, Recorded, nasty, recorded, refusals

FILTERS = {
    "NodeUnschedulable": 5_000,
    "NodeName": 5_000,
    "TaintToleration": 40_000,
    "NodeAffinity": 40_000,
    "NodePorts": 5_000,
    "NodeResourcesFit": 40_000,
    "VolumeRestrictions": 300,
    "NodeVolumeLimits": 1_500,
    "VolumeBinding": 3_000,
    "VolumeZone": 1_500,
    "PodTopologySpread": 20_000,
    "InterPodAffinity": 20_000,
    "SchedulingGates": 2_000,
    "NodeDeclaredFeatures": 2_000,
}


@cache
def everything() -> list[Recorded]:
    return [one for name in SETS for one in recorded(name).values()]


@pytest.mark.nightly
def test_at_least_three_hundred_clusters_are_recorded() -> None:
    assert len(everything()) >= 300


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["matrix", "simulate", "verify", "selfcheck"])
def test_every_kind_of_question_is_recorded(mode: str) -> None:
    assert sum(len(one.answers) for one in everything() if one.mode == mode) >= 700


@pytest.mark.nightly
def test_every_plugin_refuses_thousands_of_pairs() -> None:
    counts = Counter(
        plugin
        for one in everything()
        for answer in one.answers
        for plugin, messages in answer.get("failing", {}).items()
        for nodes in messages.values()
        for _ in nodes
    )
    short = {plugin: counts[plugin] for plugin, least in FILTERS.items() if counts[plugin] < least}
    assert not short
    assert set(counts) == set(FILTERS)


@pytest.mark.nightly
def test_tens_of_thousands_of_pairs_fit() -> None:
    matrices = [one for one in everything() if one.mode == "matrix"]
    fits = sum(
        not any(node in nodes for messages in answer.get("failing", {}).values() for nodes in messages.values())
        for one in matrices
        for answer in one.answers
        for node in one.node_names
    )
    assert fits >= 100_000


@pytest.mark.nightly
def test_every_pod_of_a_real_cluster_fits_the_node_it_runs_on() -> None:
    pods = 0
    for one in recorded("selfcheck").values():
        for answer in one.answers:
            if "node" in answer:
                assert not refusals(answer, one.node_names)[answer["node"]], (one.name, answer["pod"])
                pods += 1
    assert pods >= 700


@pytest.mark.parametrize("name", NASTY)
def test_a_hand_written_case_says_why_and_is_answered_for_every_pod(name: str) -> None:
    one = nasty(name)
    assert one.document["why"].endswith(".")
    asked = one.document["pods"] if one.mode == "selfcheck" else one.document["pending"]
    assert len(one.answers) == len(one.document.get("placements", asked))
