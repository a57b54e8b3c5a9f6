"""One round of the loop with real services on loopback is one trace, and later steps of its deletions link to it."""

import json
import subprocess
import sys

from tests.builders.waiting import LIMIT_S

PROGRAM = """
import json, sys
import structlog
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
from tests.contract.actuator.traced_round import make_a_round
print(json.dumps(make_a_round()))
"""


def test_a_round_is_one_trace_through_planner_and_actuator_and_its_deletions_link_to_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=3 * LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    spans = json.loads(done.stdout)
    (loop,) = [span for span in spans if span["name"] == "round"]
    assert loop["parent"] is None
    assert loop["attributes"]["trimtab.request_id"] == "id"
    served = {span["name"].rpartition("/")[2]: span for span in spans if span["kind"] == "SERVER"}
    assert {"Plan", "GetStatus", "StartDeletion"} <= served.keys()
    by_id = {span["span"]: span for span in spans}
    for span in served.values():
        assert span["trace"] == loop["trace"]
        asked = by_id[span["parent"]]
        assert (asked["kind"], asked["parent"]) == ("CLIENT", loop["span"])
    (deletion,) = [span for span in spans if span["name"] == "deletion"]
    assert deletion["trace"] != loop["trace"]
    assert deletion["links"] == [[loop["trace"], served["StartDeletion"]["span"]]]
    assert deletion["attributes"]["trimtab.state"] == "DELETED"
