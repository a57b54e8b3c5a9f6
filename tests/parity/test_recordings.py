"""The recordings themselves: large enough, every plugin accepts and refuses, no dangling references.

In the nightly tier where all are read, since they seldom change.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.parity.recordings import NASTY, SETS, Recorded, nasty, recorded

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


@pytest.mark.parametrize("name", NASTY)
def test_a_hand_written_case_says_why_and_is_answered_for_every_pod(name: str) -> None:
    one = nasty(name)
    assert one.document["why"].endswith(".")
    asked = one.document["pods"] if one.mode == "selfcheck" else one.document["pending"]
    assert len(one.answers) == len(one.document.get("placements", asked))
