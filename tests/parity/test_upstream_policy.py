"""The simulator's policy "upstream" compared with recorded decisions of the real Cluster Autoscaler, on small clusters.

One loop without unneeded time and limits shows which nodes go sooner or later. The policy walks a sorted list once, as
upstream does; it still frees some nodes more, since it looks a second time at nodes that others have made room for.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
from google.protobuf import json_format

from clients.cli.simulate.command import built_in
from clients.simulator.scenario_file import read_input
from clients.simulator.simulation import Simulation
from tests.parity.cluster_autoscaler_answers import lasting, ours, recorded

DOCUMENTS = 24
"""Documents of each recording; all of them take minutes without the compiler."""


class Counts(NamedTuple):
    """How many nodes go: with the policy, and with upstream in the order of its list and in three others."""

    document: str
    policy: int
    upstream: list[int]


@cache
def counts(name: str) -> tuple[Counts, ...]:
    policy = json_format.MessageToDict(built_in("upstream").scale_down)
    taken = {name: policy[name] for name in ("candidateOrders", "stabilityMargin", "evictInTurn", "savingBeforeCount")}
    return tuple(
        Counts(document["name"], ours(document, scale_down=taken).drained, [lasting(document, run) for run in runs])
        for document, runs in islice(recorded(name), DOCUMENTS)
    )


@pytest.mark.parametrize("name", ["mixed", "generated"])
def test_most_clusters_shrink_as_far_as_with_the_real_autoscaler(name: str) -> None:
    within = [one for one in counts(name) if min(one.upstream) - 1 <= one.policy <= max(one.upstream) + 1]
    assert len(within) >= 0.85 * DOCUMENTS


@pytest.mark.parametrize("name", ["mixed", "generated"])
def test_in_all_about_as_many_nodes_go(name: str) -> None:
    policy = sum(one.policy for one in counts(name))
    upstream = sum(one.upstream[0] for one in counts(name))
    assert 0.95 * upstream <= policy <= 1.2 * upstream


def test_a_recorded_cluster_grows_as_the_real_autoscaler_had_it_grow() -> None:
    recordings = files("clients").joinpath("data/recordings")
    scenario, recording = read_input(Path(str(recordings / "gardener-gcp-g2.json.gz")))
    simulation = Simulation(scenario, recording, settings=built_in("upstream")).run()
    growths = [one for one in simulation.decisions.entries if one["kind"] == "scale-up"]
    made = json.loads((recordings / "gardener-gcp-g2.recorded.json").read_text())["scaleUps"]
    told = {f"pod triggered scale-up: [{{{one['group']} 1->{1 + one['count']} (max: 2)}}]" for one in growths}
    assert told == {one["message"] for one in made}
    assert simulation.pending == []
