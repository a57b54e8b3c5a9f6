"""`--usage`: figures from files and from a real Prometheus, shown beside requests and never decided on.

The real Prometheus needs TRIMTAB_PROMETHEUS, a directory with `promtool` (tests/promtool/build.sh) and `prometheus`,
built in the same way; without it that test is skipped.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.e2e.control_plane.control_plane import free_ports
from tests.unit.clients.cli.report.pages import page_of
from trimtab.clients.cli.failures import FailedError
from trimtab.clients.cli.usage import read_usage
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects import build_snapshot, decode_objects

PROGRAMS = os.environ.get("TRIMTAB_PROMETHEUS", "")
NOW = "2026-03-01T00:00:00Z"


def objects() -> list[dict[str, Any]]:
    """One node of 4 cores with two pods of a workload that request 1 core each."""
    web = k8s.replica_set("web", 2)
    return [k8s.node("n1", cpu="4"), web, *k8s.pods_of(web, 2, cpu="1", node="n1")]


def metrics(**cpu: str) -> dict[str, Any]:
    """A PodMetricsList; each pod has two containers."""
    half = {"cpu": "50m", "memory": "1Mi"}
    items = [
        {
            "metadata": {"namespace": "default", "name": name.replace("_", "-")},
            "containers": [{"name": "a", "usage": {"cpu": amount, "memory": "63Mi"}}, {"name": "b", "usage": half}],
        }
        for name, amount in cpu.items()
    ]
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}


def vector(**values: str) -> dict[str, Any]:
    """An answer of Prometheus' query API."""
    result = [
        {"metric": {"namespace": "default", "pod": name.replace("_", "-")}, "value": [1_790_000_000, value]}
        for name, value in values.items()
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def written(folder: Path, document: Any) -> Path:
    path = folder / "usage.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(metrics(web_0="150m", web_1="150000000n"), id="PodMetricsList"),
        pytest.param(
            {"cpu": vector(web_0="0.2", web_1="0.2"), "memory": vector(web_0="67108864", web_1="67108864")},
            id="answers of Prometheus",
        ),
    ],
)
def test_usage_is_shown_beside_requests(trimtab: Run, tmp_path: Path, document: Any) -> None:
    out = trimtab(
        "plan", "--no-advice", listed(tmp_path, *objects()), "--usage", written(tmp_path, document), "--now", NOW
    ).out
    assert "Usage: cpu: 50 % requested, 10 % used;" in out
    assert "The plan rests on requests alone." in " ".join(out.split())
    row = next(line for line in out.splitlines() if line.startswith("ReplicaSet default/web"))
    assert row.split()[2:5] == ["2", "2.0", "0.4"]
    assert row.rstrip().endswith("128.0 MiB")


def test_usage_changes_no_decision(trimtab: Run, tmp_path: Path) -> None:
    cluster, usage = listed(tmp_path, *objects()), written(tmp_path, metrics(web_0="150m", web_1="1m"))
    plan = ("plan", cluster, "--now", NOW, "-o", "json")
    assert trimtab(*plan, "--usage", usage).document() == trimtab(*plan).document()


def test_a_page_has_usage_in_a_folded_table(trimtab: Run, tmp_path: Path) -> None:
    usage = written(tmp_path, metrics(web_0="150m", web_1="150m"))
    page = page_of(trimtab, tmp_path, listed(tmp_path, *objects()), "--usage", usage)
    assert "Requests above use (1) Usage: cpu: 50 % requested, 10 % used" in page.text


def test_usage_of_pods_that_do_not_exist_is_named_and_the_rest_counts(trimtab: Run, tmp_path: Path) -> None:
    usage = written(tmp_path, metrics(web_0="150m", ghost_1="1", ghost_2="1"))
    done = trimtab("plan", "--no-advice", listed(tmp_path, *objects()), "--usage", usage, "--now", NOW)
    assert done.code == 0
    assert "2 pods not in the cluster left out (default/ghost-1, default/ghost-2)" in done.err
    assert "(1 pod with figures, usage.json)" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{", "a PodMetricsList", id="no JSON"),
        pytest.param("{}", "a PodMetricsList", id="nothing"),
        pytest.param(json.dumps(metrics(ghost="1")), "it has no pod of the cluster", id="another cluster"),
        pytest.param('{"cpu": {"status": "error", "error": "bad query"}, "memory": {}}', "bad query", id="an error"),
    ],
)
def test_files_without_usage_are_refused(trimtab: Run, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "usage.json"
    path.write_text(text)
    done = trimtab("plan", "--no-advice", listed(tmp_path, *objects()), "--usage", path)
    assert (done.code, told in done.err) == (2, True)


def test_an_address_where_nothing_answers_is_named() -> None:
    view = ClusterView(build_snapshot(decode_objects(objects())).snapshot)
    with pytest.raises(FailedError, match=r"http://127\.0\.0\.1:9: no usable answer of a Prometheus"):
        read_usage("http://127.0.0.1:9", view)


def history(end_s: int) -> str:
    """Four hours of counters and gauges in OpenMetrics: web-0 uses 0.25 cores and 64 MiB, web-1 half as much."""
    lines = ["# TYPE container_cpu_usage_seconds counter", "# TYPE container_memory_working_set_bytes gauge"]
    for kind in range(2):
        for pod, cores in (("web-0", 0.25), ("web-1", 0.125)):
            labels = f'{{namespace="default",pod="{pod}",container="main"}}'
            for at in range(0, 4 * 3600, 60):
                name = ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes")[kind]
                value = (cores * at, cores * 4 * 67108864)[kind]
                lines.append(f"{name}{labels} {value} {end_s - 4 * 3600 + at}")
    metrics_in_order = [lines[0], *(line for line in lines[2:] if "cpu" in line)]
    metrics_in_order += [lines[1], *(line for line in lines[2:] if "memory" in line)]
    return "\n".join([*metrics_in_order, "# EOF"]) + "\n"


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    """Run a real Prometheus over a history that ends now; yield its address."""
    (folder / "history.txt").write_text(history(int(time.time())))
    (folder / "prometheus.yaml").write_text("global: {}\n")
    tool = [
        f"{PROGRAMS}/promtool",
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        folder / "history.txt",
        folder / "data",
    ]
    subprocess.run(tool, check=True, capture_output=True, timeout=120)
    (port,) = free_ports(1)
    command = [
        f"{PROGRAMS}/prometheus", f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            for _ in range(600):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                        break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.mark.skipif(not PROGRAMS, reason="needs prometheus and promtool in TRIMTAB_PROMETHEUS")
def test_a_real_prometheus_gives_the_usage_of_the_last_week(trimtab: Run, tmp_path: Path) -> None:
    view = ClusterView(build_snapshot(decode_objects(objects())).snapshot)
    with prometheus(tmp_path) as address:
        found = read_usage(address, view).pods
        out = trimtab("plan", "--no-advice", listed(tmp_path, *objects()), "--usage", address, "--now", NOW).out
    assert {key: (used.cpu_milli, used.memory_bytes) for key, used in found.items()} == {
        "default/web-0": (250, 67108864),
        "default/web-1": (125, 33554432),
    }
    assert f"95 % of the time in 7d, {address}" in " ".join(out.split())
