"""A decision is added by one package, one line in the table and its messages in the contract: commands, settings,
state, metrics, warm-up, explanations, simulations and redaction know it then, without a change in any of them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.contract.added_decision.tree import ROOT, add_decision

pytestmark = pytest.mark.nightly
SETTINGS = {"roomy": "{leastCpuMilli: 2500}", "negative": "{leastCpuMilli: -1}", "misspelt": "{leastCpu: 1}"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a user of the tree with the decision sees; see `session`."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("cluster")
    add_decision(tree)
    nodes = [k8s.node("n1", cpu="4"), k8s.node("n2", cpu="4")]
    pods = [k8s.pod("small", cpu="1", node="n1"), k8s.pod("large", cpu="3", node="n2")]
    items = {"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}
    (folder / "cluster.json").write_text(json.dumps(items), encoding="utf-8")
    for name, text in SETTINGS.items():
        (folder / f"{name}.yaml").write_text(f"headroom: {text}\n", encoding="utf-8")
    # Without the compiler: what is looked at here does not depend on it, and compiling anew takes a minute.
    environment = {"PYTHONPATH": f"{tree}{os.pathsep}{ROOT}", "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("session.py")],
        cwd=folder,
        env=os.environ | environment | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_package_and_a_line_are_a_decision_that_every_command_knows(seen: Any) -> None:
    assert seen["order"] == ["slack", "scale_up", "scale_down", "pod_costs", "headroom"]
    assert seen["table"]["code"] == 0, seen["table"]["err"]
    lines = [" ".join(line.split()) for line in seen["table"]["out"].splitlines()]
    assert lines[:5] == ["Headroom", "Nodes", "node free cpu milli", "n1 3000", "n2 1000"]
    assert "Note: headroom was looked for" in lines
    assert "headroom" in seen["help"]["out"]
    assert seen["scenario"] == ["headroom"]


def test_its_settings_ask_for_it_and_are_checked_by_name(seen: Any) -> None:
    answer = json.loads(seen["first"]["out"])
    assert answer["headroom"] == {"nodes": [{"node": "n1", "freeCpuMilli": "3000"}], "detail": ""}
    assert answer["diagnostics"]["decisions"][-1]["counts"] == {"nodes": "1"}
    for case, told in (("bad value", "headroom.leastCpuMilli"), ("bad field", "headroom.leastCpu")):
        assert (seen[case]["code"], seen[case]["out"]) == (2, "")
        assert told in seen[case]["err"]


def test_its_state_comes_back_to_it(seen: Any) -> None:
    states = [json.loads(seen[name]["out"])["state"]["headroom"] for name in ("first", "second")]
    assert states == [{"layoutVersion": 1, "rounds": 1}, {"layoutVersion": 1, "rounds": 2}]


def test_what_it_says_of_a_node_is_part_of_the_nodes_explanation(seen: Any) -> None:
    assert seen["explained"]["code"] == 0, seen["explained"]["err"]
    told = seen["explained"]["out"].split("\nHeadroom\n")[1]
    assert [line.split() for line in told.splitlines() if line][-1] == ["n1", "3000"]
    document = json.loads(seen["explained as JSON"]["out"])
    assert document["headroom"] == {"nodes": [{"node": "n1", "freeCpuMilli": "3000"}], "detail": ""}


def test_the_service_counts_it_and_compiles_its_kernels_first(seen: Any) -> None:
    assert seen["measured"] == ["HEADROOM HEADROOM_FOUND"]
    assert seen["warmed up"] == ["decide", "resolve", "summarize", "warm_up"]


def test_names_in_what_it_answers_are_redacted(seen: Any) -> None:
    assert seen["redacted"] not in ("", "secret-node")
