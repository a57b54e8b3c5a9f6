"""Scenario files and traces: what is wrong is named with file, line and field."""

import json
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from trimtab.clients.simulation.loads import arrivals, changes
from trimtab.clients.simulation.scenario import Scenario, WorkloadModel
from trimtab.clients.simulation.scenario_file import read_scenario, schema
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.traces.arrivals import Arrival, read_arrivals


def written(directory: Path, text: str, name: str = "scenario.yaml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("nodeGroup: []\n", "line 1: nodeGroup: this key is unknown", id="unknown key"),
        pytest.param(
            "name: x\nworkloads:\n- name: web\n  pod: {cpus: 1}\n",
            "line 4: workloads[0].pod.cpus: this key is unknown",
            id="unknown key inside",
        ),
        pytest.param(
            "nodeGroups:\n- name: a\n  minSize: 5\n  maxSize: 3\n",
            "line 2: nodeGroups[0]: minSize 5 is more than maxSize 3",
            id="contradictory sizes",
        ),
        pytest.param("seed: 1\nduration: -1h\n", "line 2: duration: -1h is no duration", id="negative duration"),
        pytest.param("duration: 1 day\n", "line 1: duration: '1 day' is not a duration", id="no duration"),
        pytest.param(
            "workloads:\n- name: web\n  pod:\n    cpu: lots\n",
            "line 4: workloads[0].pod.cpu: 'lots' is not a quantity",
            id="no quantity",
        ),
        pytest.param(
            "workloads:\n- name: web\n  budget: {minAvailable: 1, maxUnavailable: 1}\n",
            "line 3: workloads[0].budget: give either minAvailable or maxUnavailable",
            id="both limits of a budget",
        ),
        pytest.param(
            "workloads:\n- {name: web, diurnal: {low: 1, high: 2}, bursts: {size: 1, every: 1h, length: 1m}}\n",
            "line 2: workloads[0]: diurnal and bursts contradict each other",
            id="two loads",
        ),
        pytest.param(
            "nodeGroups:\n- name: a\n  price: 1e308\n", "line 3: nodeGroups[0].price:", id="price that is no price"
        ),
        pytest.param(
            "recording: {file: c.json, prices: {a: .nan}}\n",
            "line 1: recording.prices.a:",
            id="price that is no number",
        ),
        pytest.param("batches:\n- {name: b, perHour: 0}\n", "line 2: batches[0].perHour:", id="no arrivals"),
        pytest.param("name: a\nname: b\n", "line 2: key 'name' is given twice", id="key twice"),
        pytest.param("workloads:\n- {name: w}\n- {name: w}\n", "ReplicaSet default/w is given twice", id="name twice"),
        pytest.param("- a\n", "line 1: a mapping is expected", id="list"),
        pytest.param("seed: 1\na: [\nb: }\n", "line 3: while parsing a flow node did not find", id="no YAML"),
        pytest.param("trace: {file: absent.csv}\n", "absent.csv: No such file", id="absent trace"),
        pytest.param("start: 2026-03-02T00:00:00\n", "start: give a time zone", id="no time zone"),
        pytest.param("start: 9999-12-31T00:00:00Z\n", "start: 9999 is no year between 1971 and", id="no year"),
        pytest.param(
            "workloads:\n- {name: web, replicas: 2, diurnal: {low: 1, high: 2}}\n",
            "line 2: workloads[0]: replicas and diurnal contradict each other",
            id="replicas and wave",
        ),
        pytest.param(
            "workloads:\n- {name: agent, kind: DaemonSet, replicas: 2}\n",
            "line 2: workloads[0]: a DaemonSet has a pod on each node; leave out replicas",
            id="replicas of a DaemonSet",
        ),
        pytest.param(
            "workloads:\n- name: web\n  pod:\n    spec: {tolerations: [3]}\n",
            "line 4: workloads[0].pod.spec: tolerations[0]: Expected `object`, got `int`",
            id="pod spec of another type",
        ),
        pytest.param(
            "batches:\n- {name: b, perHour: 1, pod: {spec: {nodeSelector: {a: 3}}}}\n",
            "line 2: batches[0].pod.spec: nodeSelector[...]: Expected `str`, got `int`",
            id="pod spec of a job",
        ),
        pytest.param(
            "workloads:\n- {name: web, pod: {spec: {nodeName: n1}}}\n",
            "pod.spec: nodeName: the scheduler decides it",
            id="bound pod",
        ),
        pytest.param(
            "nodeGroups:\n- {name: a, taints: [{key: x}]}\n",
            "line 2: nodeGroups[0].taints: taints[0].effect: None is unknown",
            id="taint without effect",
        ),
        pytest.param(
            "nodeGroups:\n- {name: a, taints: [{effect: NoSchedule}]}\n",
            "taints[0].key: it is missing",
            id="taint without key",
        ),
        pytest.param("nodeGroups:\n- {name: a, labels: {'': x}}\n", "line 2: nodeGroups[0].labels", id="empty label"),
    ],
)
def test_what_is_wrong_in_a_scenario_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ScenarioError) as failed:
        read_scenario(path)
    assert told in str(failed.value)
    assert str(tmp_path) in str(failed.value)


def test_all_errors_of_a_file_are_reported_in_its_order(tmp_path: Path) -> None:
    path = written(tmp_path, "nodeGroups:\n- {name: a, maxSize: 0}\n- {name: b, price: -1}\nseed: x\n")
    with pytest.raises(ScenarioError) as failed:
        read_scenario(path)
    lines = str(failed.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["line 2", "line 3", "line 4"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("time,cpu\n0,1\n", "line 1: column 'memory' is missing", id="missing column"),
        pytest.param("time,cpu,memory,gpu\n", "line 1: column 'gpu' is unknown", id="unknown column"),
        pytest.param("time,cpu,memory,cpu\n", "line 1: column 'cpu' is given twice", id="column twice"),
        pytest.param("time,cpu,memory\n0,1,1Gi\n5,1\n", "line 3: it has fewer values", id="gap"),
        pytest.param("time,cpu,memory\n0,1,1Gi,7\n", "line 2: it has more values", id="too many"),
        pytest.param("time,cpu,memory,lifetime\n0,1,1Gi,-5\n", "line 2: lifetime: -5s is no duration", id="negative"),
        pytest.param("time,cpu,memory\n10,1,1Gi\n5,1,1Gi\n", "line 3: time 5 s is before", id="not sorted"),
        pytest.param("time,cpu,memory\n0,-1,1Gi\n", "line 2: cpu: -1 is negative", id="negative amount"),
        pytest.param("time,cpu,memory,pods\n0,1,1Gi,0\n", "line 2: pods '0'", id="no pods"),
        pytest.param("time,cpu,memory,labels\n0,1,1Gi,app\n", "line 2: labels: 'app' is not KEY=VALUE", id="label"),
        pytest.param("time,cpu,memory\n,1,1Gi\n", "line 2: time:", id="no time"),
        pytest.param('time,cpu,memory\n0,"1,1Gi\n', "line 2: this is no CSV", id="open quote"),
    ],
)
def test_what_is_wrong_in_a_trace_is_named_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ScenarioError) as failed:
        read_arrivals(written(tmp_path, text, "trace.csv"))
    assert told in str(failed.value)


def test_a_trace_of_a_spreadsheet_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    assert len(read_arrivals(written(tmp_path, "\ufefftime,cpu,memory\n0,1,1Gi\n", "trace.csv"))) == 1


def test_a_trace_gives_its_arrivals(tmp_path: Path) -> None:
    text = "time,pods,cpu,memory,lifetime,labels\n0,3,500m,1Gi,1h,tier=front;app=web\n90s,,2,4Gi,,\n"
    path = written(tmp_path, "trace: {file: trace.csv}\n")
    written(tmp_path, text, "trace.csv")
    _, trace = read_scenario(path)
    assert trace == (
        Arrival(0.0, 3, "500m", "1Gi", 3600.0, (("app", "web"), ("tier", "front"))),
        Arrival(90.0, 1, "2", "4Gi", None, ()),
    )


def test_the_example_can_be_read_and_the_schema_knows_its_keys(tmp_path: Path) -> None:
    text = (files("trimtab.clients.simulation.examples") / "shop.yaml").read_text(encoding="utf-8")
    scenario, _ = read_scenario(written(tmp_path, text))
    assert [group.name for group in scenario.node_groups] == ["general-a", "general-b", "general-c", "large-a"]
    known = json.loads(json.dumps(schema()))
    assert {"nodeGroups", "workloads", "batches", "trace"} <= known["properties"].keys()
    assert known["additionalProperties"] is False
    assert "Maximum size." in json.dumps(known)


@pytest.mark.parametrize("name", ["shop", "prices"])
def test_each_example_can_be_read(name: str) -> None:
    with as_file(files("trimtab.clients.simulation.examples") / f"{name}.yaml") as path:
        scenario, _ = read_scenario(path)
    assert scenario.name == name
    assert all(group.price for group in scenario.node_groups)


def test_loads_follow_the_time_of_day_and_do_not_depend_on_each_other() -> None:
    wave = {"name": "web", "diurnal": {"low": 10, "high": 110, "peak": "12h", "every": "1h"}}
    scenario = Scenario.model_validate({"workloads": [wave]})
    by_hour = {change.at_s / 3600: change.replicas for change in changes(scenario, scenario.workloads[0])}
    assert (by_hour[0], by_hour[6], by_hour[12]) == (10, 60, 110)
    noisy = [
        WorkloadModel.model_validate({"name": name, "diurnal": {"low": 0, "high": 99, "noise": 0.5}}) for name in "ab"
    ]
    assert changes(scenario, noisy[0]) != changes(scenario, noisy[1])
    assert changes(scenario, noisy[0]) == changes(Scenario(workloads=noisy), noisy[0])


def test_jobs_arrive_as_often_as_they_should() -> None:
    scenario = Scenario.model_validate({"batches": [{"name": "b", "perHour": 60, "lifetime": "5m"}]})
    found = arrivals(scenario, scenario.batches[0])
    assert len(found) == pytest.approx(24 * 60, rel=0.1)
    assert sum(one.lifetime_s for one in found) / len(found) == pytest.approx(300, rel=0.1)
    assert all(0 <= one.at_s < 86_400 for one in found)
