"""What a user of the tree with the added decision sees. Run by `test_added_decision` in a process of its own, in a
folder with the files that the command lines name; prints one JSON document.
"""

import json
import sys
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from trimtab.planner.headroom import decision as headroom

from tests.contract.added_decision.command_line import trimtab
from trimtab.clients.cli.live.redaction import redact_file
from trimtab.clients.simulation.scenario import Scenario
from trimtab.common.objects import read_files
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.planner.decisions.table import TABLE
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.warm_up import answer_requests
from trimtab.v1 import plan_pb2


def measured() -> list[str]:
    """Return decision and result of each plan that the service counts."""
    reader = InMemoryMetricReader()
    handler = RequestHandler(MeterProvider([reader]).get_meter("test"), 0, log_decisions=False)
    request = plan_pb2.PlanRequest(decisions=[headroom.HEADROOM.code])
    request.now.seconds = 1_800_000_000
    handler.plan(request, read_files([Path("cluster.json")]).snapshot.SerializeToString(), Caller())
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    points = [point for metric in metrics if metric.name == "plans" for point in metric.data.data_points]
    return [f"{point.attributes['decision']} {point.attributes['result']}" for point in points]


def warmed_up() -> list[str]:
    """Return which functions of the added package the warm-up calls."""
    called = set()

    def see(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == headroom.__file__:
            called.add(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        answer_requests()
    finally:
        sys.setprofile(None)
    return sorted(called)


def redacted() -> str:
    """Return the name of a node in a redacted answer."""
    answer: Any = plan_pb2.PlanResponse()
    answer.headroom.nodes.add(node="secret-node")
    with RecordingWriter(Path("plain.trimtab")) as writer:
        writer.write(answer)
    redact_file(Path("plain.trimtab"), Path("redacted.trimtab"))
    with Path("redacted.trimtab").open("rb") as opened:
        (found,) = list(RecordingReader("redacted.trimtab", opened))
    return str(found.response.headroom.nodes[0].node)


def seen() -> dict[str, Any]:
    """Return what each part of the project makes of the decision."""
    plan = ("plan", "cluster.json", "--now", "1800000000")
    settings = ("--settings", "roomy.yaml")
    first = trimtab(*plan, *settings, "-o", "json")
    Path("last.json").write_text(first["out"], encoding="utf-8")
    return {
        "order": [one.field for one in TABLE],
        "table": trimtab(*plan, "--decision", "headroom"),
        "first": first,
        "second": trimtab(*plan, *settings, "--state", "last.json", "-o", "json"),
        "bad value": trimtab(*plan, "--settings", "negative.yaml"),
        "bad field": trimtab(*plan, "--settings", "misspelt.yaml"),
        "explained": trimtab("explain", "cluster.json", "node/n1", *settings),
        "explained as JSON": trimtab("explain", "cluster.json", "node/n1", *settings, "-o", "json"),
        "help": trimtab("plan", "--help"),
        "scenario": Scenario.model_validate({"decisions": ["headroom"]}).decisions,
        "measured": measured(),
        "warmed up": warmed_up(),
        "redacted": redacted(),
    }


if __name__ == "__main__":
    document = json.dumps(seen())
    sys.stdout.write(document)
