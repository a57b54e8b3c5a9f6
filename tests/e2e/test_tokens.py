"""Bearer tokens that a real API server reviews: those for another audience, and those that have been revoked."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.tls import OwnCa, make_ca
from tests.e2e.actuator_process import until
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.kubernetes.token_review import GRANTED_S, REFUSED_S, TokenReviewer, open_reviewer
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.access_policy import read_policy
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

pytestmark = pytest.mark.e2e

ONCE = RetryPolicy(attempts=1)
POLICY = """
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers:
  - {identities: ["system:serviceaccount:default:caller"], rights: [read]}
"""


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def GetStatus(self, request, context):
        return actuator_pb2.GetStatusResponse()


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    until(lambda: "default" in plane.kubectl("get", "serviceaccounts", "-o", "name"), 60, "controllers")


class ClockAhead:
    """A clock that a test moves on, so that it need not wait for the end of a review."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class Calls:
    """A service that takes tokens for the audience "trimtab", and a caller."""

    def __init__(self, plane: ControlPlane, ca: OwnCa, policy: Path) -> None:
        self.plane, self.ca, self.clock = plane, ca, ClockAhead()
        opened = open_reviewer("trimtab", plane.kubeconfig("admin"))
        reviewer = TokenReviewer(opened._api, "trimtab", self.clock)
        registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, Servicer(), "trimtab.v1.Actuator")
        access = Access(lambda: read_policy(policy), reviewer.review)
        self.shell = Shell("test", [registration], ServerSettings(security=ca.port(client_ca=False), access=access))

    def token(self, *options: str, account: str = "caller") -> str:
        return self.plane.kubectl("create", "token", account, *options).strip()

    def answer(self, token: str) -> str:
        """Return "OK", or code and reason of the refusal."""
        file = self.ca.directory / "token"
        file.write_text(token)
        security = self.ca.channel(token_file=file)
        with ActuatorClient(self.shell.address, ONCE, security=security) as client:
            try:
                client.get_status()
            except TrimtabError as error:
                return f"{error.code.name} {error.reason_name}"
        return "OK"


@pytest.fixture
def calls(plane: ControlPlane, tmp_path: Path) -> Iterator[Calls]:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    for account in ("caller", "other"):
        plane.kubectl("create", "serviceaccount", account)
    made = Calls(plane, make_ca(tmp_path / "ca"), policy)
    with made.shell:
        yield made
    plane.kubectl("delete", "serviceaccounts", "caller", "other", "--ignore-not-found")


def test_only_a_token_for_this_audience_and_of_a_granted_account_is_taken(calls: Calls) -> None:
    good = calls.token("--audience=trimtab")
    assert calls.answer(good) == "OK"
    assert calls.answer(calls.token("--audience=trimtab", "--audience=more")) == "OK"
    # For another service, and for the API server itself.
    assert calls.answer(calls.token("--audience=another")) == "UNAUTHENTICATED CALLER_UNKNOWN"
    assert calls.answer(calls.token()) == "UNAUTHENTICATED CALLER_UNKNOWN"
    assert calls.answer(good[:-3] + "abc") == "UNAUTHENTICATED CALLER_UNKNOWN"
    assert calls.answer(calls.token("--audience=trimtab", account="other")) == "PERMISSION_DENIED CALLER_NOT_ALLOWED"


@pytest.mark.parametrize("way", ["its account is deleted", "the object that it is bound to is deleted"])
def test_a_revoked_token_is_refused_once_its_review_has_ended(calls: Calls, way: str) -> None:
    bound = way.startswith("the object")
    if bound:
        calls.plane.kubectl("create", "secret", "generic", "holder")
    binding = ("--bound-object-kind=Secret", "--bound-object-name=holder") if bound else ()
    token = calls.token("--audience=trimtab", *binding)
    assert calls.answer(token) == "OK"
    calls.plane.kubectl("delete", "secret/holder" if bound else "serviceaccount/caller")
    # The API server itself remembers its reviews of tokens for some seconds.
    until(lambda: calls.answer(token) == "OK" and _refused_at(calls, token, GRANTED_S), 60, "the token is refused")
    calls.clock.ahead_s += REFUSED_S
    assert calls.answer(token) == "UNAUTHENTICATED CALLER_UNKNOWN"


def _refused_at(calls: Calls, token: str, later_s: float) -> bool:
    """Return whether the token is refused later; if not, its review is kept for as long again."""
    calls.clock.ahead_s += later_s
    return calls.answer(token) == "UNAUTHENTICATED CALLER_UNKNOWN"
