"""Why claims get no devices, in words."""

from trimtab.clients.cli.causes import device_cause, device_kinds
from trimtab.v1 import planner_pb2
from trimtab.v1.reason_pb2 import DeviceReason

FULL = planner_pb2.DeviceRefusal(claim="gpu", request="main", driver="d", pool="n1", reason=DeviceReason.IN_USE)
OTHER = planner_pb2.DeviceRefusal(claim="gpu", request="main", driver="d", pool="n2", reason=DeviceReason.TAINTED)
MISSING = planner_pb2.DeviceRefusal(claim="nic", detail="ResourceClaim a/b does not exist")


def test_the_claim_the_request_and_the_pool_are_named() -> None:
    assert device_cause([FULL, OTHER, MISSING]) == (
        "claim gpu, request main: devices are in use in pool n1, "
        "devices have taints that it does not tolerate in pool n2; claim nic: ResourceClaim a/b does not exist"
    )
    assert device_cause([]) == ""


def test_nodes_whose_pools_refuse_for_the_same_reasons_are_alike() -> None:
    other = planner_pb2.DeviceRefusal()
    other.CopyFrom(FULL)
    other.pool = "n3"
    one, two = (planner_pb2.NodeFit(devices=[refusal]) for refusal in (FULL, other))
    assert device_kinds(one) == device_kinds(two) != device_kinds(planner_pb2.NodeFit(devices=[MISSING]))
