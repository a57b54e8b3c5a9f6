"""NodePorts, case by case."""

import pytest

from tests.builders.fitting import node, pending, reasons
from tests.builders.rows import PodRow
from trimtab.planner.model.values import HostPort, PodRequirements
from trimtab.v1.snapshot_pb2 import PodPhase


def port(number: int = 80, ip: str = "0.0.0.0", protocol: str = "TCP") -> HostPort:
    return HostPort(protocol, ip, number)


@pytest.mark.parametrize(
    ("wanted", "taken", "conflict"),
    [
        pytest.param(port(), port(), True, id="wildcard against wildcard"),
        pytest.param(port(ip="10.0.0.1"), port(), True, id="address against wildcard"),
        pytest.param(port(), port(ip="10.0.0.1"), True, id="wildcard against address"),
        pytest.param(port(ip="10.0.0.1"), port(ip="10.0.0.1"), True, id="the same address"),
        pytest.param(port(ip="10.0.0.1"), port(ip="10.0.0.2"), False, id="two addresses"),
        pytest.param(port(protocol="UDP"), port(), False, id="two protocols"),
        pytest.param(port(81), port(), False, id="two ports"),
        pytest.param(port(0), port(0), False, id="port 0 is not a port"),
        pytest.param(port(ip="127.0.0.1"), port(ip="::1"), False, id="addresses are compared as text"),
    ],
)
def test_a_port_conflicts(wanted: HostPort, taken: HostPort, conflict: bool) -> None:
    other = PodRow("other", PodRequirements(host_ports=(taken,)), node="n1")
    why = reasons(pending(PodRequirements(host_ports=(wanted,))), [node("n1"), node("n2")], [other])
    assert why == {"n1": ["HOST_PORT_CONFLICT"] if conflict else [], "n2": []}


def test_a_pod_that_has_ended_holds_no_port() -> None:
    other = PodRow("other", PodRequirements(host_ports=(port(),)), node="n1", phase=PodPhase.SUCCEEDED)
    assert reasons(pending(PodRequirements(host_ports=(port(),))), [node()], [other]) == {"n1": []}
