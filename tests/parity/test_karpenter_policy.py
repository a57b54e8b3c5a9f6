"""The real Karpenter as the policy of a simulation.

Runs only where the environment variable TRIMTAB_KARPENTER names the program of
`tests/benchmarks/karpenter/consolidation`.
"""

import os

import pytest

from trimtab.clients.cli.simulate.command import built_in
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.sweep import Run, simulate

KARPENTER = os.environ.get("TRIMTAB_KARPENTER", "")
pytestmark = pytest.mark.skipif(not KARPENTER, reason="needs a program in TRIMTAB_KARPENTER")


def test_on_a_burst_karpenter_adds_nodes_for_all_pods_and_removes_them_afterwards() -> None:
    groups = [
        {"name": "small", "cpu": "4", "memory": "16Gi", "minSize": 1, "size": 1, "maxSize": 30, "price": 0.2},
        {"name": "large", "cpu": "16", "memory": "64Gi", "maxSize": 10, "price": 0.9},
    ]
    steps = [{"at": "10m", "replicas": 60}, {"at": "40m", "replicas": 8}]
    pod = {"cpu": "700m", "memory": "1Gi"}
    web = {"name": "web", "replicas": 6, "steps": steps, "pod": pod, "budget": {"maxUnavailable": 2}}
    policy = {"external": [KARPENTER, "-policy"]}
    given = {"duration": "2h", "nodeGroups": groups, "workloads": [web], "policy": policy}
    settings = built_in("upstream").SerializeToString()
    figures = simulate(Run(Scenario.model_validate(given), (), "upstream", settings))["summary"]
    assert (figures["podsPendingAtEnd"], figures["nodesAdded"] > 8) == (0, True)
    assert figures["nodesRemoved"] > 8
