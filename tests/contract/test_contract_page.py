"""The contract's page agrees with the code: the errors, the limits, the enumerations."""

import ast
import re
from pathlib import Path

import grpc
import pytest

from tests.builders.contract_page import PAGE, errors, table
from trimtab.clients import planner_client
from trimtab.common.rpc.errors import Reason
from trimtab.common.rpc.server import ServerSettings
from trimtab.planner import process
from trimtab.planner.decisions import requests
from trimtab.planner.service import snapshot_reader
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.snapshot import checks
from trimtab.v1 import reason_pb2

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("planner", "actuator", "common/rpc")


def test_each_reason_has_exactly_one_row_that_says_when_it_is_sent_and_what_to_do() -> None:
    reasons = [row.reason for row in errors()]
    assert sorted(reasons) == sorted(set(Reason.values()) - {Reason.UNSPECIFIED})
    assert all(row.condition and row.remedy for row in errors())


def raised(root: str) -> list[tuple[str, str, str]]:
    """Return place, gRPC code and reason of every literal `ServiceError(…)` in the code."""
    found = []
    for path in sorted((ROOT / root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ServiceError":
                code, reason = node.args[:2]
                assert isinstance(code, ast.Attribute), f"{path}:{node.lineno} hides its gRPC code"
                assert isinstance(reason, ast.Attribute), f"{path}:{node.lineno} hides its reason"
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", code.attr, reason.attr))
    return found


@pytest.mark.parametrize("root", SOURCES)
def test_every_error_is_raised_with_the_code_of_the_table(root: str) -> None:
    codes = {Reason.Name(row.reason): row.code.name for row in errors()}
    found = raised(root)
    assert found
    assert [f"{place}: {reason} with {code}" for place, code, reason in found if codes[reason] != code] == []


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("bytes of one piece of a snapshot", snapshot_reader.MAX_PIECE_BYTES),
        ("bytes of the request's header, the state in it", process.MAX_MESSAGE_BYTES),
        ("pods", checks.MAX_PODS),
        ("nodes, templates", checks.MAX_NODES),
        ("nodes times resources", checks.MAX_NODE_CELLS),
        ("one amount, of a node or a pod", checks.MAX_AMOUNT),
        ("all amounts of one resource, over all nodes or all pods", checks.MAX_TOTAL),
        ("a time, seconds since 1970", checks.MAX_TIME_S),
        ("bytes of `request_id`", requests.MAX_REQUEST_ID_BYTES),
        ("bytes of `cluster`", requests.MAX_CLUSTER_BYTES),
        ("features that a request requires", requests.MAX_FEATURES),
        ("bytes of one of them", requests.MAX_FEATURE_BYTES),
        ("bytes of memory that all requests together take, estimated", PlannerOptions().max_request_memory),
        ("seconds between two messages of a request", int(ServerSettings().idle_timeout_s)),
        ("seconds until a request is whole", int(ServerSettings().receive_timeout_s)),
        ("seconds until a message of the answer is read", int(ServerSettings().send_timeout_s)),
        ("seconds for one call to the planner, whatever its deadline", int(PlannerOptions().longest_call_s)),
        ("calls open at a time", ServerSettings().limits().most),
    ],
)
def test_the_limits_of_the_page_are_those_of_the_code(limit: str, value: int) -> None:
    stated = {row[0]: row[1].split(" ")[0].rstrip(",") for row in table("Limits")}
    assert stated[limit] == f"{value:,}"


def test_the_client_sends_pieces_that_the_planner_accepts() -> None:
    assert planner_client.PIECE_BYTES == snapshot_reader.MAX_PIECE_BYTES


def test_the_page_names_every_enumeration_of_reasons() -> None:
    messages = reason_pb2.DESCRIPTOR.message_types_by_name
    assert {row[0].strip("`") for row in table("Reasons")} == {name for name, one in messages.items() if one.enum_types}


def test_the_page_names_every_file_of_the_contract() -> None:
    listed = set(re.findall(r"^\| `(\w+\.proto)` \|", PAGE, flags=re.MULTILINE))
    assert listed == {path.name for path in (ROOT / "protos/trimtab/v1").glob("*.proto")}


def test_every_code_of_the_table_is_one_of_grpc() -> None:
    assert {row.code for row in errors()} <= set(grpc.StatusCode) - {grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN}
