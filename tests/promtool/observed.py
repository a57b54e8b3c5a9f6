"""Runs a real Prometheus against running services, and prints its results for our rules and our dashboard's queries.

By hand: `python -m tests.promtool.observed --prometheus PROGRAM [--minutes 3] [--away-minutes 6]`. Planner and actuator
run with mixed calls; then both are stopped, and alerts about their absence have time to fire. Exit code 1 if a rule or
a query cannot be evaluated. PROGRAM is built from its Go module (52 MB):

    cp -r "$(go mod download -json github.com/prometheus/prometheus@v0.316.0 | jq -r .Dir)" /tmp/prometheus
    cd /tmp/prometheus && chmod -R u+w . && GOWORK=off CGO_ENABLED=0 \\
        go build -trimpath -tags remove_all_sd -o PROGRAM ./cmd/prometheus
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.builders.metrics import OBSERVE, queries
from tests.e2e.control_plane.control_plane import free_ports
from tests.soak.actuator_calls import ActuatorCalls
from tests.soak.callers import Answers, call_until
from tests.soak.planner_calls import PlannerClient
from trimtab.clients.cli.demo.services import actuator, planner
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import read_files

NODES, PODS = 60, 900
EVERY_S = 5
LONGEST_S = 300.0


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long the services run")
    parser.add_argument("--away-minutes", type=float, default=6.0, help="how long they are away afterwards")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-observed-") as name:
        directory = Path(name)
        planner_port, actuator_port, own_port = free_ports(3)
        jobs = {"trimtab-planner": planner_port, "trimtab-actuator": actuator_port}
        with prometheus(options.prometheus, directory, own_port, jobs) as server:
            with services(directory, jobs):
                time.sleep(options.minutes * 60)
                faults = told(server, "while the services run")
            time.sleep(options.away_minutes * 60)
            print(f"\nwith both services away for {options.away_minutes:g} minutes:")
            faults += alerts(server)
    return 1 if faults else 0


class Server:
    """The HTTP API of a Prometheus."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer. Raises OSError, also for a query that cannot be evaluated."""
        with urlopen(f"{self._base}{path}?{urlencode(parameters)}", timeout=60) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(program: Path, directory: Path, port: int, jobs: Mapping[str, int]) -> Iterator[Server]:
    """Run a Prometheus that scrapes the jobs at their ports and evaluates our rules."""
    config = {
        "global": {"scrape_interval": f"{EVERY_S}s", "evaluation_interval": f"{EVERY_S}s"},
        "rule_files": [str(OBSERVE / "rules.yaml")],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{at}"]}]} for job, at in jobs.items()
        ],
    }
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    storage = f"--storage.tsdb.path={directory}/tsdb"
    command = [program, f"--config.file={file}", storage, f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server, until_s = Server(port), time.monotonic() + LONGEST_S
        while True:
            try:
                print("Prometheus", server.get("status/buildinfo")["version"] or "of a version that its build left out")
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError((directory / "prometheus.log").read_text()) from None
                time.sleep(0.5)
        yield server
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def services(directory: Path, jobs: Mapping[str, int]) -> Iterator[None]:
    """Run planner and actuator with mixed calls."""
    cluster = directory / "cluster.json"
    write_list(generate(ClusterShape(nodes=NODES, pods=PODS)), cluster)
    snapshots = [read_files([cluster]).snapshot] * 2
    ports = {job: ("--metrics-address", f"127.0.0.1:{port}") for job, port in jobs.items()}
    with ExitStack() as stack:
        deciding = stack.enter_context(planner(directory, options=ports["trimtab-planner"]))
        acting = stack.enter_context(actuator(directory, [cluster], ports["trimtab-actuator"]))
        # Both serve before the first query.
        planner_at, actuator_at = deciding.address, acting.address
        stopped = threading.Event()
        makers = (lambda: PlannerClient(planner_at, snapshots), lambda: ActuatorCalls(actuator_at, NODES // 2))
        threads = [threading.Thread(target=call_until, args=(stopped, make, Random(0), Answers())) for make in makers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopped.set()
            for thread in threads:
                thread.join(LONGEST_S)


def told(server: Server, when: str) -> int:
    """Print the result of each query and rule; return how many cannot be evaluated."""
    faults = 0
    print(f"\n{when}:")
    for title, query in queries():
        try:
            found = server.get("query", query=query.replace("[5m]", "[1m]"))["result"]
        except OSError as error:
            faults += 1
            print(f"  CANNOT BE EVALUATED {title}: {query}: {error}")
            continue
        shown = ", ".join(f"{_labels(one['metric'])}{float(one['value'][1]):.4g}" for one in found[:4])
        print(f"  {title}: {len(found)} series {shown}")
    return faults + alerts(server)


def alerts(server: Server) -> int:
    """Print alerts that are pending or fire; return how many rules cannot be evaluated."""
    faults = 0
    for group in server.get("rules")["groups"]:
        for rule in group["rules"]:
            if rule["health"] != "ok":
                faults += 1
                print(f"  CANNOT BE EVALUATED {rule['name']}: {rule.get('lastError')}")
            for one in rule["alerts"]:
                print(f"  {rule['name']} {one['state']} since {one['activeAt']}: {one['annotations']['summary']}")
    return faults


def _labels(metric: Mapping[str, str]) -> str:
    told_apart = [f"{name}={value}" for name, value in metric.items() if name not in {"__name__", "instance", "job"}]
    return f"{' '.join(told_apart)} " if told_apart else ""


if __name__ == "__main__":
    sys.exit(main())
