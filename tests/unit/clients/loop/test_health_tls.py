"""The loop's health port with the loop's certificate, as the kubelet calls it."""

import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.builders.tls import make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.clients.loop.health import Health, HealthServer
from trimtab.common.rpc.port_security import ExposedPortError, PortSecurity


def test_health_is_served_over_tls_1_3_to_callers_without_a_certificate(tmp_path: Path) -> None:
    ca, health = make_ca(tmp_path / "ca"), Health(max_inactivity_s=60.0)
    context = ssl.create_default_context(cafile=str(ca.ca))
    old = ssl.create_default_context(cafile=str(ca.ca))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with HealthServer("127.0.0.1:0", health, ca.port(client_ca=False)) as server:
        url = f"https://{server.address}"
        with urllib.request.urlopen(f"{url}/healthz", timeout=LIMIT_S, context=context) as page:
            assert page.read() == b"ok\n"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{url}/readyz", timeout=LIMIT_S, context=context)
        for refused in (old, ssl.create_default_context()):
            with pytest.raises(urllib.error.URLError):
                urllib.request.urlopen(f"{url}/healthz", timeout=LIMIT_S, context=refused)
        with pytest.raises(OSError):  # noqa: PT011 - how a handshake fails depends on the library
            urllib.request.urlopen(f"http://{server.address}/healthz", timeout=LIMIT_S)


def test_health_is_not_served_in_plain_text_on_the_network_unless_the_operator_allows_it() -> None:
    health = Health(max_inactivity_s=60.0)
    with pytest.raises(ExposedPortError, match="--health-address"):
        HealthServer("0.0.0.0:0", health)
    with HealthServer("0.0.0.0:0", health, PortSecurity(allow_plaintext=True)):
        pass
