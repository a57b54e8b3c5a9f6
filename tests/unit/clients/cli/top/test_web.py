"""The page of the loop over HTTP: what it answers, to whom, and with which headers."""

import gzip
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.builders.screens import picture, renamed, status_of
from tests.builders.tls import make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.top.feed import Picture
from trimtab.clients.cli.top.web import LastPicture, WebPort
from trimtab.common.documents.output import is_visible
from trimtab.common.rpc.access import open_access
from trimtab.common.rpc.port_security import ExposedPortError, PortSecurity

POLICY = """
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers: [{identities: ["spiffe://trimtab/operator"], rights: [read]}]
"""


def last_picture(*, rounds: int = 1) -> LastPicture:
    """Return the last picture of the small cluster; without rounds there is nothing yet."""
    last = LastPicture()
    for _ in range(rounds):
        last.show(picture())
    return last


@pytest.fixture
def port() -> Iterator[WebPort]:
    with WebPort("127.0.0.1:0", last_picture(), PortSecurity()) as served:
        yield served


def ask(port: WebPort, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    host, _, number = port.address.partition(":")
    connection = HTTPConnection(host, int(number), timeout=LIMIT_S)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer, answer.read()


def test_the_page_loads_nothing_from_elsewhere_and_may_not_be_framed(port: WebPort) -> None:
    answer, body = ask(port, "/")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert b"http://" not in body
    assert b"https://" not in body


def test_the_page_and_the_document_have_what_the_screen_shows(port: WebPort) -> None:
    page = ask(port, "/")[1].decode()
    found = json.loads(ask(port, "/page.json")[1])
    assert found["title"] == "shop: trimtab top"
    tables = {one["title"]: one for one in found["blocks"] if one["kind"] == "Table"}
    cells = {title: [line["cells"] for line in table["lines"]] for title, table in tables.items()}
    assert [row[0] for row in cells["Nodes"]] == ["a-1", "a-2", "a-3", "b-1", "b-2"]
    assert cells["Nodes"][3][-1] == "draining: 3 of 7 pods gone"
    assert cells["What grows"] == [["pool-a", "3 → 4", "5", "1", "0.50", "365", "cheapest plan"]]
    assert [row[:2] for row in cells["Deletions"]] == [["b-1", "pool-b"], ["a-9", "pool-a"]]
    for text in ("2,555", "draining: 3 of 7 pods gone", "the cloud refused", "cheapest plan", "default/huge"):
        assert text in page
    assert b"data-version" not in ask(port, "/node?name=a-2")[1], "an explanation is not loaded again"


def test_a_page_is_packed_for_those_who_take_that(port: WebPort) -> None:
    for path in ("/", "/page.json"):
        answer, body = ask(port, path, Accept_Encoding="gzip")
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(body) == ask(port, path)[1]


def test_a_new_picture_has_a_new_version_and_a_failed_round_is_told_while_the_last_plan_stays() -> None:
    last = last_picture()
    with WebPort("127.0.0.1:0", last, PortSecurity()) as port:
        before = json.loads(ask(port, "/version")[1])
        assert f'data-version="{before["version"]}"'.encode() in ask(port, "/")[1]
        last.say("the planner is away")
        assert json.loads(ask(port, "/version")[1]) == before | {"trouble": "the planner is away"}
        assert b"draining: 3 of 7 pods gone" in ask(port, "/")[1]
        last.show(picture())
        after = json.loads(ask(port, "/version")[1])
        assert (after["trouble"], after["version"] == before["version"]) == ("", False)


def test_before_the_first_round_the_reason_is_told() -> None:
    last = last_picture(rounds=0)
    with WebPort("127.0.0.1:0", last, PortSecurity()) as port:
        assert ask(port, "/")[0].status == 200
        assert ask(port, "/page.json")[0].status == 503
        assert json.loads(ask(port, "/version")[1])["trouble"] == "no round has succeeded yet"
        last.say("the cluster cannot be read")
        assert json.loads(ask(port, "/version")[1])["trouble"] == "the cluster cannot be read"


def test_a_node_is_explained_and_others_are_not_found(port: WebPort) -> None:
    answer, body = ask(port, "/node?name=a-2")
    assert answer.status == 200
    assert b"Pod default/bare has no controller" in body
    assert answer.headers["Content-Type"].startswith("text/html")
    assert is_visible(ask(port, "/node?name=%1b%5d0%e2%80%ae")[1].decode())
    assert [ask(port, path)[0].status for path in ("/node?name=x", "/node", "/x", "/../etc/passwd")] == [404] * 4


def test_nothing_but_reading_is_answered(port: WebPort) -> None:
    assert [ask(port, "/", method)[0].status for method in ("POST", "PUT", "DELETE", "PATCH")] == [405] * 4


def test_a_request_for_another_host_is_refused_on_loopback(port: WebPort) -> None:
    assert ask(port, "/page.json", Host="evil.example")[0].status == 421
    number = port.address.rpartition(":")[2]
    hosts = ("localhost", f"localhost:{number}", "127.0.0.1", f"[::1]:{number}")
    assert [ask(port, "/", Host=host)[0].status for host in hosts] == [200] * 4


def test_the_page_is_not_served_in_plain_text_on_the_network_unless_the_operator_allows_it() -> None:
    with pytest.raises(ExposedPortError, match="--web"):
        WebPort("0.0.0.0:0", last_picture(), PortSecurity())
    with WebPort("0.0.0.0:0", last_picture(), PortSecurity(allow_plaintext=True)):
        pass


def test_on_the_network_callers_need_a_certificate_unless_the_operator_allows_others(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    with pytest.raises(ExposedPortError, match="--web"):
        WebPort("0.0.0.0:0", last_picture(), ca.port(client_ca=False))
    context = ssl.create_default_context(cafile=str(ca.ca))
    with WebPort("127.0.0.1:0", last_picture(), ca.port()) as port:
        url = f"https://{port.address}/"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url, timeout=LIMIT_S, context=context)
        files = ca.channel("client")
        assert files.tls_cert is not None
        context.load_cert_chain(files.tls_cert, files.tls_key)
        with urllib.request.urlopen(url, timeout=LIMIT_S, context=context) as page:
            assert page.status == 200


def test_under_a_policy_only_those_with_the_right_to_read_may_look(tmp_path: Path) -> None:
    ca, policy = make_ca(tmp_path / "ca"), tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    access = open_access(policy, "", None, lambda *_: tuple)
    with WebPort("127.0.0.1:0", last_picture(), ca.port(), access) as port:

        def asked_by(name: str) -> bytes:
            ca.issue(name, hosts=())
            context = ssl.create_default_context(cafile=str(ca.ca))
            files = ca.channel(name)
            assert files.tls_cert is not None
            context.load_cert_chain(files.tls_cert, files.tls_key)
            with urllib.request.urlopen(f"https://{port.address}/", timeout=LIMIT_S, context=context) as page:
                return bytes(page.read())

        assert b"<html" in asked_by("operator")
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            asked_by("loop")
        assert b"does not grant read to spiffe://trimtab/loop" in refused.value.read()


def test_names_that_change_how_others_are_shown_are_spelled_out_and_explained_by_that_spelling() -> None:
    last = LastPicture()
    last.show(Picture(renamed("b\u202e\x1b2"), status_of(), "shop"))
    with WebPort("127.0.0.1:0", last, PortSecurity()) as served:
        nodes = json.loads(ask(served, "/page.json")[1])["blocks"][-1]["lines"]
        names = [row["cells"][0] for row in nodes]
        spelled = next(name for name in names if "202e" in name)
        assert spelled == "b\\u202e\\x1b2"
        answer, body = ask(served, f"/node?{urlencode({'name': spelled})}")
    assert answer.status == 200
    assert spelled in body.decode()
    assert is_visible(body.decode())
