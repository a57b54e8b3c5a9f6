"""`trimtab plan --decision pod-costs`: a table of groups, their pods in order, and the share of each strategy."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from tests.builders.kubernetes import Json, node, pod, replica_set
from tests.builders.pod_costs import NUMBER, ZONE, at
from tests.builders.pod_group_objects import member, pod_group
from trimtab.clients.cli.commands import app


def asked(tmp_path: Path, targets: list[Json], *options: str, more: Sequence[Json] = ()) -> str:
    web, db = replica_set("web", 4), replica_set("db", 1)
    objects = [web, db, node("a1", zone="a"), node("b1", zone="b"), pod("lost", owner=db)]
    objects += [
        pod(f"w{i}", node=f"{'ab'[i % 2]}1", owner=web, created=at(i), annotations={NUMBER: str(i)}) for i in range(4)
    ]
    objects += more
    file, settings = tmp_path / "cluster.json", tmp_path / "settings.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    settings.write_text(yaml.safe_dump({"podCosts": {"targets": targets}}))
    arguments = ["plan", str(file), "--settings", str(settings), "--decision", "pod-costs", *options]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout


BALANCE = {"strategy": "BALANCE_DOMAINS", "topologyKey": ZONE, "threshold": 4}
IDLE = {"strategy": "IDLE", "annotation": NUMBER, "threshold": 4, "weight": 0.5}


def test_the_table_names_groups_pods_in_order_and_each_strategy_s_part(tmp_path: Path) -> None:
    text = asked(tmp_path, [{"strategies": [BALANCE, IDLE]}])
    lines = text.splitlines()
    assert lines[0] == "1 of 2 groups is ranked: 4 pods."
    rows = [line.split() for line in lines if " -" in line]
    assert [row[-6] if "web" in row[0] else row[0] for row in rows] == ["w3", "w2", "w1", "w0"]
    assert rows[0] == ["ReplicaSet/default/web", "w3", str(-(2**25) - 3 * 2**23), "0.5", "(2)", "0.375", "(3)"]
    assert "balance domains" in text
    assert "Groups left to their controllers" in text
    assert "ReplicaSet/default/db  a pod is on no node" in text


def test_a_line_says_what_the_costs_of_pods_mean_that_a_gang_needs(tmp_path: Path) -> None:
    line = "Pods with a cost above 0 are needed by a running gang: they go last, gang by gang."
    assert line not in asked(tmp_path, [{"strategies": [BALANCE]}])
    team = [
        member(f"g{i}", node="a1", owner=replica_set("web", 4), created=at(i), annotations={NUMBER: "1"})
        for i in range(2)
    ]
    assert line in asked(tmp_path, [{"strategies": [BALANCE]}], more=[pod_group(), *team])


def test_without_targets_the_answer_says_what_is_missing(tmp_path: Path) -> None:
    assert "the settings have no podCosts.targets" in asked(tmp_path, [])


def test_the_json_has_costs_by_pod_and_says_which_groups_are_complete(tmp_path: Path) -> None:
    answer: Any = json.loads(asked(tmp_path, [{"strategies": [BALANCE]}], "-o", "json"))
    db, web = answer["podCosts"]["groups"]
    assert (db["owner"], db["complete"], db["reason"], db["costs"]) == (
        "ReplicaSet/default/db", False, "POD_WITHOUT_NODE", {},
    )  # fmt: skip
    assert web["complete"]
    assert web["costs"] == {f"default/w{i}": -(2**24) * (1 + i // 2) for i in range(4)}
