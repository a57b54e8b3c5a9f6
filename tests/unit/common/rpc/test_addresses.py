"""Addresses of services: what gRPC would take for another one is refused."""

import pytest

from trimtab.common.rpc.addresses import AddressError, check_target, split_address
from trimtab.common.rpc.client import connect


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8085", ("::1", 8085)), (":65535", ("0.0.0.0", 65535))],
)
def test_an_address_to_listen_on_is_split(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", ":", "host", "host:", "host:65536", "host:99999", "host:-1", "host:²"])
def test_a_text_without_a_port_is_no_address(address: str) -> None:
    for read in (split_address, check_target, connect):
        with pytest.raises(AddressError, match="is not host:port"):
            read(address)


@pytest.mark.parametrize("address", ["host:0", ":8085", "[]:8085", "http://host:80", "a b:1", "https://host"])
def test_a_port_that_nothing_can_listen_on_is_not_called(address: str) -> None:
    with pytest.raises(AddressError, match="is not host:port"):
        connect(address)


@pytest.mark.parametrize("address", ["host:8085", "[::1]:8085", "dns:///host:8085", "unix:/run/planner"])
def test_every_name_of_a_service_is_called_as_it_is(address: str) -> None:
    assert check_target(address) == address
