"""What a user of the tree with the added predicates sees. Run by `test_added_predicate` in a process of its own, in a
folder with the files that the command lines name; prints one JSON document.
"""

import json
import sys
from typing import Any

from opentelemetry.metrics import NoOpMeterProvider

from tests.contract.added_decision.command_line import trimtab
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.v1 import planner_pb2

NOW = ("--now", "1800000000")


def told_by_the_service() -> list[str]:
    """Return the predicates that the service says it has."""
    handler = RequestHandler(NoOpMeterProvider().get_meter("test"), 0, log_decisions=False)
    context: Any = None
    return list(
        PlannerServicer(handler, PlannerOptions()).GetInfo(planner_pb2.GetPlannerInfoRequest(), context).predicates
    )


def seen() -> dict[str, Any]:
    """Return what each part of the project makes of the predicates."""
    return {
        "fit": trimtab("explain", "cluster.json", "fit", "-o", "json"),
        "plan": trimtab("plan", "cluster.json", *NOW, "-o", "json"),
        "table": trimtab("plan", "cluster.json", *NOW),
        "explained pod": trimtab("explain", "cluster.json", "pod/default/server", *NOW),
        "explained node": trimtab("explain", "cluster.json", "node/n1", *NOW),
        "info": told_by_the_service(),
    }


if __name__ == "__main__":
    document = json.dumps(seen())
    sys.stdout.write(document)
