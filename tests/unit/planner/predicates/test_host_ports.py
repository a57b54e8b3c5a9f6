"""NodePorts, of ports that readers of Kubernetes objects leave out; the rest is held against the scheduler."""

from tests.builders.fitting import node, pending, reasons
from tests.builders.rows import PodRow
from trimtab.planner.model.values import HostPort, PodRequirements


def test_port_0_is_not_a_port() -> None:
    spec = PodRequirements(host_ports=(HostPort("TCP", "0.0.0.0", 0),))
    assert reasons(pending(spec), [node()], [PodRow("other", spec, node="n1")]) == {"n1": []}
