"""The real Cluster Autoscaler as the policy of a simulation, beside our policy `upstream`.

Runs only where the environment variable TRIMTAB_ORACLE names the program of `cluster_autoscaler_oracle`.
"""

import os
from typing import Any

import pytest

from trimtab.clients.cli.simulate.command import built_in
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.sweep import Run, simulate

ORACLE = os.environ.get("TRIMTAB_ORACLE", "")
pytestmark = pytest.mark.skipif(not ORACLE, reason="needs a program in TRIMTAB_ORACLE")


def scenario(**more: Any) -> Scenario:
    """Two hours with a burst of 60 pods for half an hour."""
    groups = [
        {"name": "small", "cpu": "4", "memory": "16Gi", "minSize": 1, "size": 1, "maxSize": 30, "price": 0.2},
        {"name": "large", "cpu": "16", "memory": "64Gi", "maxSize": 10, "price": 0.78},
    ]
    steps = [{"at": "10m", "replicas": 60}, {"at": "40m", "replicas": 8}]
    pod = {"cpu": "700m", "memory": "1Gi"}
    web = {"name": "web", "replicas": 6, "steps": steps, "pod": pod, "budget": {"maxUnavailable": 2}}
    return Scenario.model_validate({"duration": "2h", "nodeGroups": groups, "workloads": [web], **more})


def test_on_a_burst_the_real_autoscaler_and_the_policy_upstream_have_the_same_figures() -> None:
    settings = built_in("upstream").SerializeToString()
    ours = simulate(Run(scenario(), (), "upstream", settings))["summary"]
    policy = {"external": [ORACLE, "-policy"]}
    theirs = simulate(Run(scenario(policy=policy), (), "upstream", settings))["summary"]
    different = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
    assert different.keys() == {"rounds"}
