"""Who may do what: certificates and tokens over real TLS, a policy file that changes, refusals that are audited."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from tests.builders.json_api import JsonApiServer
from tests.builders.tls import OwnCa
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.common.kubernetes.token_review import GRANTED_S, TokenReviewer
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.access_policy import does_match, read_policy
from trimtab.common.rpc.callers import current_caller
from trimtab.common.rpc.certificates import Reloaded
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.rights import RIGHT_OF_METHOD, Right
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, planner_pb2_grpc

ONCE = RetryPolicy(attempts=1)
LOOP = "system:serviceaccount:trimtab:trimtab-loop"
POLICY = """
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers:
  - {identities: ["spiffe://trimtab/client", "LOOP"], rights: [read, taint]}
  - {identities: ["spiffe://other/*"], rights: [read]}
""".replace("LOOP", LOOP)


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def GetStatus(self, request, context):
        return actuator_pb2.GetStatusResponse()

    def WatchStatus(self, request, context):
        for _ in range(2):
            yield actuator_pb2.WatchStatusResponse(
                status=actuator_pb2.ActuatorStatus(revision=len(current_caller().name))
            )

    def ApplyTaints(self, request, context):
        return actuator_pb2.ApplyTaintsResponse(tainted_count=len(current_caller().identities))

    def CancelDeletion(self, request, context):
        return actuator_pb2.CancelDeletionResponse()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def access(policy: Path | None, review: Any = None) -> Access:
    return Access(Reloaded((policy,), lambda: read_policy(policy)).get if policy else None, review)


def make_shell(security: Any, allowed: Access) -> Shell:
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, Servicer(), "trimtab.v1.Actuator")
    return Shell("test", [registration], ServerSettings(security=security, access=allowed))


def client(shell: Shell, security: ChannelSecurity) -> ActuatorClient:
    return ActuatorClient(shell.address, ONCE, security=security)


def refused(call: Any) -> TrimtabError:
    with pytest.raises(TrimtabError) as caught:
        call()
    return caught.value


def test_a_caller_may_do_what_its_rule_grants_and_nothing_else(ca: OwnCa, policy: Path) -> None:
    with make_shell(ca.port(), access(policy)) as shell, client(shell, ca.channel("client")) as known:
        known.get_status()
        assert known.apply_taints([]).tainted_count == 2, "the URI and the common name"
        assert [one.revision for one in known.watch_status()] == [len("spiffe://trimtab/client")] * 2
        with capture_logs() as logs:
            error = refused(lambda: known.cancel_deletion(["n1"]))
    assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, Reason.CALLER_NOT_ALLOWED)
    assert error.metadata == {"right": "delete"}
    assert "delete" in error.message
    assert "spiffe://trimtab/client" in error.message
    (record,) = [one for one in logs if one["event"] == "refused"]
    assert (record["caller"], record["right"]) == ("spiffe://trimtab/client", "delete")
    assert record["method"] == "/trimtab.v1.Actuator/CancelDeletion"


def test_a_certificate_with_another_identity_is_admitted_by_tls_and_refused_by_the_policy(
    ca: OwnCa, policy: Path
) -> None:
    ca.issue("stranger", hosts=())
    ca.issue("guest", identity="spiffe://other/guest", hosts=())
    with make_shell(ca.port(), access(policy)) as shell:
        with client(shell, ca.channel("stranger")) as stranger:
            error = refused(stranger.get_status)
            assert (error.code, error.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"right": "read"})
        with client(shell, ca.channel("guest")) as guest:
            guest.get_status()
            assert refused(lambda: guest.apply_taints([])).code is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "uri",
    [
        "system:serviceaccount:trimtab:x://y",
        "system://serviceaccount",
        "dns:trusted.example.com?://x",
        "dns://trusted.example.com",
        "CN://trusted",
        "9spiffe://x",
        "urn:trimtab:x",
    ],
)
def test_a_certificates_uri_passes_for_no_other_kind_of_identity(ca: OwnCa, tmp_path: Path, uri: str) -> None:
    ca.issue("forged", identity=uri, hosts=())
    path = tmp_path / "policy.yaml"
    patterns = '["system:*", "dns:*", "CN:*", "9*", "urn:*"]'
    path.write_text(POLICY + f"  - {{identities: {patterns}, rights: [read]}}\n")
    with make_shell(ca.port(), access(path)) as shell, client(shell, ca.channel("forged")) as forged:
        error = refused(forged.get_status)
    assert (error.code, error.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"right": "read"})
    assert "cn:forged" in error.message


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*b*", "abc", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*ab*bc", "abc", False),
        ("a*", "b\na", False),
        ("a*c", "a\nb\nc", True),
        ("prod-?", "prod-1", False),
        ("prod-?", "prod-?", True),
        ("prod-[ab]", "prod-a", False),
        ("prod-[ab]*", "prod-[ab]1", True),
        ("A*", "ab", False),
    ],
)
def test_in_a_pattern_only_the_asterisk_stands_for_other_text(pattern: str, text: str, is_match: bool) -> None:
    assert does_match(text, pattern) is is_match


def test_a_pattern_of_many_asterisks_takes_no_longer_than_the_text() -> None:
    assert not does_match("a" * 100_000, "*a" * 250 + "*b")


def test_a_caller_without_identity_is_refused_before_its_request_is_read(ca: OwnCa, policy: Path) -> None:
    with make_shell(ca.port(client_ca=False), access(policy)) as shell, client(shell, ca.channel()) as nobody:
        error = refused(nobody.get_status)
        nobody.wait_until_serving()
    assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, Reason.CALLER_UNKNOWN)
    assert "certificate" in error.message


def test_a_policy_that_changes_holds_at_once_and_a_bad_one_is_left_aside(ca: OwnCa, policy: Path) -> None:
    with make_shell(ca.port(), access(policy)) as shell, client(shell, ca.channel("client")) as known:
        known.get_status()
        policy.write_text(POLICY.replace("[read, taint]", "[taint]"))
        assert refused(known.get_status).code is grpc.StatusCode.PERMISSION_DENIED
        with capture_logs() as logs:
            policy.write_text(POLICY.replace("[read, taint]", "[reed]"))
            assert refused(known.get_status).code is grpc.StatusCode.PERMISSION_DENIED
            known.apply_taints([])
        (warning,) = [one for one in logs if "cannot be used" in one["event"]]
        assert "callers.0.rights.0" in warning["detail"]
        policy.write_text(POLICY)
        known.get_status()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("", "the file", id="empty"),
        pytest.param("a: [", "line 2", id="no YAML"),
        pytest.param(POLICY.replace("rights", "right"), "callers.0.rights", id="a key with another name"),
        pytest.param(POLICY.replace("taint]", "fly]"), "callers.0.rights.1", id="an unknown right"),
        pytest.param(POLICY.replace("AccessPolicy", "Policy"), "kind", id="another kind"),
        pytest.param(POLICY + "deletions: {maxNodesPerHour: -1}", "deletions.maxNodesPerHour", id="negative"),
        pytest.param(POLICY + 'deletions: {maxNodesPerHour: "3"}', "deletions.maxNodesPerHour", id="no number"),
        pytest.param(POLICY + "deletions: {maxSharePerHour: 10}", "deletions.maxSharePerHour", id="no share"),
        pytest.param(POLICY + "deletions: {requirePlanTime: 1}", "deletions.requirePlanTime", id="no boolean"),
        pytest.param(POLICY + "callers: []", "callers", id="a key twice"),
    ],
)
def test_an_error_in_the_policy_is_reported_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ValueError, match=place) as caught:
        read_policy(tmp_path / "p.yaml")
    assert str(tmp_path / "p.yaml") in str(caught.value)


def test_a_policy_says_for_which_clusters_a_caller_may_plan(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        POLICY + "  - {identities: [a, b], rights: [plan], clusters: ['prod-*', test]}\n"
        "  - {identities: [a], rights: [read], clusters: ['*']}\n"
    )
    found = read_policy(tmp_path / "p.yaml")
    asked = {name: found.may_plan(("a",), name) for name in ("prod-1", "test", "test-2", "")}
    assert asked == {"prod-1": True, "test": True, "test-2": False, "": False}
    assert not found.may_plan(("c",), "test")


class Reviews:
    """An API server that knows one token for one audience."""

    def __init__(self, server: JsonApiServer) -> None:
        self.now_s = 0.0
        self.reviewer = TokenReviewer(server.api().http, "trimtab", lambda: self.now_s)
        server.tokens["good"] = (LOOP, ["trimtab"])
        server.tokens["of another audience"] = (LOOP, ["vault"])
        server.tokens["of a person"] = ("spiffe://trimtab/client", ["trimtab"])
        self.server = server

    def count(self) -> int:
        return sum("tokenreviews" in one for one in self.server.requests)


@pytest.fixture
def reviews() -> Iterator[Reviews]:
    with JsonApiServer() as server:
        yield Reviews(server)


def with_token(ca: OwnCa, tmp_path: Path, token: str) -> ChannelSecurity:
    (tmp_path / "token").write_text(token)
    return ca.channel(token_file=tmp_path / "token")


def test_a_token_is_an_identity_and_is_asked_about_once_a_minute(
    ca: OwnCa, policy: Path, tmp_path: Path, reviews: Reviews
) -> None:
    allowed = access(policy, reviews.reviewer.review)
    with (
        make_shell(ca.port(client_ca=False), allowed) as shell,
        client(shell, with_token(ca, tmp_path, "good\n")) as loop,
    ):
        for _ in range(3):
            loop.get_status()
        assert reviews.count() == 1
        del reviews.server.tokens["good"]  # revoked
        loop.get_status()
        reviews.now_s += GRANTED_S + 1
        error = refused(loop.get_status)
        assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, Reason.CALLER_UNKNOWN)
        reviews.server.tokens["new"] = (LOOP, ["trimtab"])
        (tmp_path / "token").write_text("new")
        loop.get_status()


@pytest.mark.parametrize("token", ["unknown", "of another audience", "of a person", "x" * 20_000])
def test_a_token_that_is_not_valid_is_refused_without_saying_it_anywhere(
    ca: OwnCa, policy: Path, tmp_path: Path, reviews: Reviews, token: str
) -> None:
    allowed = access(policy, reviews.reviewer.review)
    security = with_token(ca, tmp_path, token)
    with capture_logs() as logs, make_shell(ca.port(client_ca=False), allowed) as shell, client(shell, security) as own:
        error = refused(own.get_status)
    assert error.code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert token not in str(error)
    assert token not in str(logs)


def test_an_unreachable_api_server_is_reported_as_unavailable(
    ca: OwnCa, policy: Path, tmp_path: Path, reviews: Reviews
) -> None:
    reviews.server.tokens.clear()
    reviews.server.forbidden.add("create tokenreviews")
    allowed = access(policy, reviews.reviewer.review)
    security = with_token(ca, tmp_path, "good")
    with make_shell(ca.port(client_ca=False), allowed) as shell, client(shell, security) as own:
        error = refused(own.get_status)
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE)


def test_unknown_callers_have_the_rights_of_anonymous_ones_and_no_rule_of_others(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY + '  - {identities: ["*"], rights: [plan, choose], clusters: ["*"]}\n')
    assert read_policy(path).rights(()) == frozenset()
    assert not read_policy(path).may_plan((), "any")
    path.write_text(POLICY + "anonymous: [choose]\n")
    found = read_policy(path)
    assert found.rights(()) == {Right.CHOOSE}
    assert Right.CHOOSE not in found.rights(("spiffe://trimtab/client",))
    path.write_text(POLICY + "anonymous: [read]\n")
    with pytest.raises(ValueError, match=r"anonymous\.0"):
        read_policy(path)


def test_every_method_of_the_services_needs_a_right() -> None:
    for add, servicer in (
        (actuator_pb2_grpc.add_ActuatorServicer_to_server, actuator_pb2_grpc.ActuatorServicer()),
        (actuator_pb2_grpc.add_EmbeddedClusterServicer_to_server, actuator_pb2_grpc.EmbeddedClusterServicer()),
        (planner_pb2_grpc.add_PlannerServicer_to_server, planner_pb2_grpc.PlannerServicer()),
        (expander_pb2_grpc.add_ExpanderServicer_to_server, expander_pb2_grpc.ExpanderServicer()),
    ):
        found = _Methods()
        add(servicer, found)
        assert found.names
        assert [name for name in found.names if name not in RIGHT_OF_METHOD] == []


class _Methods:
    """Replaces a server, and records the methods."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        del handlers

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.names += [f"/{service}/{name}" for name in handlers]
