"""Traces: arrivals as CSV and JSON Lines, and traces of SimKube, real ones and ones written by its documented form."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.builders.cli import Run as CliRun
from tests.builders.cli import runner
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_file import read_scenario
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.traces.arrivals import Arrival, TracedObjects, read_arrivals
from trimtab.clients.simulation.traces.simkube import read_simkube

Json = dict[str, Any]


@pytest.fixture
def trimtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CliRun:
    return runner(monkeypatch, capsys)


EXAMPLES = Path(str(files("trimtab.clients.simulation.examples")))
GROUP = {"name": "g", "cpu": "4", "minSize": 1, "size": 1, "maxSize": 9, "start": "30s"}


def written(tmp_path: Path, name: str, *lines: str | Json) -> Path:
    path = tmp_path / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_json_lines_and_csv_say_the_same(tmp_path: Path) -> None:
    csv = written(
        tmp_path,
        "t.csv",
        "# trimtab-trace 1",
        "time,pods,cpu,memory,lifetime,labels,namespace,priority,gang",
        "0,3,500m,1Gi,1h,app=web;tier=front,shop,7,2",
        "90s,1,2,4Gi,,,,,",
    )
    labels = {"app": "web", "tier": "front"}
    first = {"time": 0, "pods": 3, "cpu": "500m", "memory": "1Gi", "lifetime": "1h", "labels": labels}
    lines = written(
        tmp_path,
        "t.jsonl",
        {"trimtabTrace": 1},
        {**first, "namespace": "shop", "priority": 7, "gang": 2},
        "",
        {"time": "90s", "cpu": 2, "memory": "4Gi"},
    )
    assert read_arrivals(csv) == read_arrivals(lines)
    assert read_arrivals(csv)[0] == Arrival(
        0.0, 3, "500m", "1Gi", 3600.0, tuple(sorted(labels.items())), "shop", '{"priority": 7}', 2
    )


def test_the_spec_of_a_line_reaches_its_pods(tmp_path: Path) -> None:
    spec = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"pool": "x"}}
    written(
        tmp_path, "t.jsonl", {"trimtabTrace": 1}, {"time": 5, "cpu": "1", "memory": "1Gi", "spec": spec, "priority": 3}
    )
    (tmp_path / "s.yaml").write_text(json.dumps({"nodeGroups": [GROUP], "trace": {"file": "t.jsonl"}}))
    scenario, trace = read_scenario(tmp_path / "s.yaml")
    simulation = ClusterSimulation(scenario, trace).run_for("10s")
    (pod,) = simulation.cluster.state.pods.values()
    assert pod.spec["nodeSelector"] == {"pool": "x"}
    assert pod.spec["priority"] == 3


REFUSED = {
    "newer CSV": (["# trimtab-trace 2", "time,cpu,memory"], "line 1: this is a trace of version 2; this trimtab reads"),
    "newer JSON": ([{"trimtabTrace": 2}], "line 1: this is a trace of version 2; this trimtab reads version 1"),
    "no version": ([{"time": 0, "cpu": "1", "memory": "1"}], 'line 1: the first line must be {"trimtabTrace": 1}'),
    "unknown field": (
        [{"trimtabTrace": 1}, {"time": 0, "cpu": "1", "memory": "1", "gpu": 1}],
        "line 2: field 'gpu' is",
    ),
    "missing field": ([{"trimtabTrace": 1}, {"time": 0, "cpu": "1"}], "line 2: field 'memory' is missing"),
    "no number": ([{"trimtabTrace": 1}, {"time": 0, "cpu": [], "memory": "1"}], "line 2: cpu: a quantity is text"),
    "bad spec": (
        [{"trimtabTrace": 1}, {"time": 0, "cpu": "1", "memory": "1", "spec": {"nodeName": "n"}}],
        "line 2: spec.nodeName: the scheduler decides it",
    ),
    "bad toleration": (
        [{"trimtabTrace": 1}, {"time": 0, "cpu": "1", "memory": "1", "spec": {"tolerations": 3}}],
        "line 2: spec.tolerations",
    ),
    "high priority": (["time,cpu,memory,priority", "0,1,1,2000000000"], "line 2: priority '2000000000' is no number"),
    "gang above its pods": (
        ["time,pods,cpu,memory,gang", "0,2,1,1,3"],
        "line 2: gang '3' is no number between 1 and 2",
    ),
    "gang of none": ([{"trimtabTrace": 1}, {"time": 0, "cpu": "1", "memory": "1", "gang": 0}], "line 2: gang 0 is no"),
    "bad namespace": (["time,cpu,memory,namespace", "0,1,1,A_b"], "line 2: namespace: 'A_b' is no namespace"),
    "unsorted after a version": (
        ["# trimtab-trace 1", "time,cpu,memory", "9,1,1", "3,1,1"],
        "line 4: time 3 s is before",
    ),
    "no JSON": ([{"trimtabTrace": 1}, "{"], "line 2: this is no JSON"),
}


@pytest.mark.parametrize(("lines", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_a_line_that_cannot_be_meant_is_refused_with_its_field(
    tmp_path: Path, lines: list[str | Json], problem: str
) -> None:
    path = written(tmp_path, "t.jsonl" if isinstance(lines[0], dict) else "t.csv", *lines)
    with pytest.raises(ScenarioError) as error:
        read_arrivals(path)
    assert str(error.value).startswith(f"{path}: {problem}")


def example(name: str) -> TracedObjects:
    return read_simkube(EXAMPLES / "simkube" / f"{name}.sktrace")


def test_the_scaled_deployments_of_a_real_trace_are_read() -> None:
    traced = example("dsb-scaling")
    sizes = {
        one.item["metadata"]["name"]: [(size.at_s, size.replicas) for size in one.sizes] for one in traced.controllers
    }
    assert len(sizes) == 27
    assert sizes["user-timeline-service"] == [(0.0, 1), (551.0, 2), (986.0, 1)]
    (container,) = traced.controllers[0].sizes[0].template["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert (traced.begin_s, traced.length_s, traced.notes) == (1710892138.0, 1134.0, ())


def test_the_lifecycles_of_pods_and_of_runs_of_a_cron_job_are_read() -> None:
    bare = example("bare-pods").pods
    assert [(one.at_s, one.lifetime_s) for one in bare] == [(0.0, 12.0), (42.0, 30.0), (102.0, 30.0), (162.0, None)]
    runs = example("cronjob").pods
    assert [(one.at_s, one.lifetime_s) for one in runs] == [(38.0, 30.0), (98.0, 30.0), (158.0, 30.0)]
    assert all(one.item["kind"] == "Job" for one in runs)


def test_a_real_trace_is_simulated_with_the_sizes_that_it_has() -> None:
    scenario, trace = read_scenario(EXAMPLES / "simkube.yaml")
    simulation = ClusterSimulation(scenario, trace)
    assert simulation.begin_s == 1710892138.0
    simulation.run_for("9m")
    assert simulation.pod_count("user-timeline-service") == 1
    simulation.run_for("2m")
    assert simulation.pod_count("user-timeline-service") == 2
    simulation.run()
    assert simulation.pod_count("user-timeline-service") == 1
    assert simulation.pending == []


@pytest.mark.ci
def test_pods_without_owner_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"nodeGroups": [GROUP]}))
    scenario, trace = read_scenario(tmp_path / "s.yaml", EXAMPLES / "simkube" / "bare-pods.sktrace")
    simulation = ClusterSimulation(scenario, trace)
    counts = [simulation.run_for("10s").pod_count() for _ in range(18)]
    assert max(counts) == 1
    assert counts[3] == 0, "the first one has ended"
    assert counts[-1] == 1, "the last one had not ended"


def test_the_command_replaces_the_trace_of_a_scenario(trimtab: CliRun, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"nodeGroups": [GROUP], "trace": {"file": "nothing.csv"}}))
    command = ("simulate", tmp_path / "s.yaml", "--trace", EXAMPLES / "simkube" / "bare-pods.sktrace", "-o", "json")
    assert trimtab(*command).document()["summary"]["podsScheduled"] == 4


def template(cpu: str = "500m", **spec: Any) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], **spec}}


def applied(kind: str, name: str, spec: Json, version: str = "apps/v1") -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def trace(*events: tuple[int, list[Json], list[Json]], **more: Any) -> Json:
    """A trace as the documentation describes it."""
    config = {"trackedObjects": {"apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]}}}
    listed = [{"ts": ts, "applied_objs": new, "deleted_objs": gone} for ts, new, gone in events]
    return {"version": 2, "config": config, "events": listed, "index": {}, "pod_lifecycles": {}, **more}


def packed(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "t.sktrace"
    path.write_bytes(msgspec.msgpack.encode(document))
    return path


def simulated(tmp_path: Path, document: Json) -> ClusterSimulation:
    traced = read_simkube(packed(tmp_path, document))
    scenario = Scenario.model_validate({"nodeGroups": [GROUP], "trace": {"file": "-"}, "duration": "1h"})
    return ClusterSimulation(scenario, traced)


def test_controllers_of_each_kind_appear_grow_and_go(tmp_path: Path) -> None:
    db = applied("StatefulSet", "db", {"replicas": 2, "template": template()})
    agent = applied("DaemonSet", "agent", {"template": template("10m")})
    web = applied("Deployment", "web", {"replicas": 1, "template": template()})
    more = applied("Deployment", "web", {"replicas": 3, "template": template("600m")})
    every = [db, agent, web]
    simulation = simulated(tmp_path, trace((100, every, []), (160, [more], []), (220, [], every)))

    def names() -> list[str]:
        return sorted(str(pod.owner["name"]) for pod in simulation.cluster.state.pods.values() if pod.active)

    simulation.run_for("30s")
    assert names() == ["agent", "db", "db", "web"]
    simulation.run_for("60s")
    assert names() == ["agent", "db", "db", "web", "web", "web"]
    cpus = sorted(pod.requests["cpu"] for pod in simulation.cluster.state.pods.values() if pod.owner["name"] == "web")
    assert cpus == [500, 600, 600]
    simulation.run_for("60s")
    assert names() == []


def test_pods_of_other_kinds_run_when_they_ran(tmp_path: Path) -> None:
    tasks = {"tasks": [{"template": template()}, {"template": template("1")}]}
    custom = applied("Job", "train", tasks, "batch.volcano.sh/v1alpha1")
    config = {"trackedObjects": {"batch.volcano.sh/v1alpha1.Job": {"podSpecTemplatePaths": ["/spec/tasks/*/template"]}}}
    key = ("batch.volcano.sh/v1alpha1.Job", "ns/train")
    lifecycles = {key: {7: [{"Finished": [110, 170]}, "Empty"], 8: [{"Finished": [120, 180]}]}}
    document = trace((100, [custom], []), config=config, pod_lifecycles=lifecycles)
    traced = read_simkube(packed(tmp_path, document))
    cpus = [
        one.item["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in traced.pods
    ]
    assert [(one.at_s, one.lifetime_s) for one in traced.pods] == [(10.0, 60.0), (20.0, 60.0)]
    assert cpus == ["500m", "1"]
    assert simulated(tmp_path, document).run().pod_count() == 0


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    web = applied(
        "Deployment", "web", {"replicas": 1, "template": template(volumes=[claim, {"name": "e", "emptyDir": {}}])}
    )
    other = applied("Thing", "x", {}, "example.org/v1")
    cron = applied("CronJob", "c", {"jobTemplate": {"spec": {"template": template()}}}, "batch/v1")
    traced = read_simkube(packed(tmp_path, trace((5, [web, other, cron], []))))
    assert traced.notes == (
        "objects without a pod template (example.org/v1.Thing), left out: 1",
        "objects without lifecycles of pods (batch/v1.CronJob), left out: 1",
        "pod templates with claims of volumes, which are left out: 1",
    )
    assert traced.controllers[0].sizes[0].template["spec"]["volumes"] == [{"name": "e", "emptyDir": {}}]


def test_the_same_trace_as_json_is_read_too(tmp_path: Path) -> None:
    document = trace((5, [applied("Deployment", "web", {"replicas": 1, "template": template()})], []))
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    assert read_simkube(path) == read_simkube(packed(tmp_path, document))


BAD = {
    "no msgpack": (b"\xc1", "this is no trace of SimKube"),
    "a list": ([1], "this is no trace of SimKube: it has no version and events"),
    "version 1": ({**trace((1, [], [])), "version": 1}, "version: 1 is not read; this trimtab reads version 2"),
    "no events": (trace(), "events: there are none"),
    "time in milliseconds": (trace((1_743_286_823_000, [], [])), "events[0].ts: 1743286823000 is no time in Unix"),
    "back in time": (trace((5, [], []), (4, [], [])), "events[1].ts: 4 is before that of the event above, 5"),
    "no object": (trace((5, [{"kind": "Pod"}], [])), "events[0].applied_objs[0]: apiVersion, kind and metadata are"),
    "no name": (
        trace((5, [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], [])),
        "events[0].applied_objs[0].metadata.name: it is missing",
    ),
    "replicas": (
        trace((5, [applied("Deployment", "web", {"replicas": "3", "template": template()})], [])),
        "events[0].applied_objs[0].spec.replicas: '3' is no number of pods",
    ),
    "no template": (
        trace((5, [applied("Deployment", "web", {"replicas": 3})], [])),
        "events[0].applied_objs[0].spec.template: it is missing",
    ),
    "bad spec": (
        trace((5, [applied("Deployment", "web", {"template": template(tolerations=3)})], [])),
        "events[0].applied_objs[0].spec.template.spec.tolerations",
    ),
    "lifecycle": (
        trace((5, [], []), pod_lifecycles={("v1.Pod", "ns/x"): {1: [{"Finished": [9, 3]}]}}),
        "pod_lifecycles[('v1.Pod', 'ns/x')]: {'Finished': [9, 3]} is neither Empty",
    ),
}


@pytest.mark.parametrize(("document", "problem"), BAD.values(), ids=BAD.keys())
def test_a_trace_that_cannot_be_read_is_refused_with_its_field(tmp_path: Path, document: Any, problem: str) -> None:
    path = packed(tmp_path, document)
    if isinstance(document, bytes):
        path.write_bytes(document)
    with pytest.raises(ScenarioError) as error:
        read_simkube(path)
    assert str(error.value).startswith(f"{path}: {problem}")


def test_a_recording_takes_no_trace(trimtab: CliRun, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    done = trimtab("simulate", tmp_path / "c.json", "--trace", EXAMPLES / "simkube" / "bare-pods.sktrace")
    assert "a recording has its own pods; a trace needs a scenario with node groups" in done.err
