"""Addresses "host:port": where a service listens, and where a client finds it. Decides only whether a text is one."""

from typing import Final

_LARGEST_PORT: Final = 65535
_SCHEMES: Final = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "xds:")
"""Of gRPC's other names of a service, which it checks itself."""
PLAINTEXT_OPTION: Final = "--allow-plaintext-on-network"
ANONYMOUS_OPTION: Final = "--allow-anonymous-on-network"
"""What allows a service to listen on other addresses than loopback without TLS, or for callers who are not known."""


class AddressError(ValueError):
    """A text is not an address. The message is for people."""


def split_address(address: str) -> tuple[str, int]:
    """Split "host:port"; an IPv6 host stands in brackets. Raises AddressError saying what is wrong."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > len(str(_LARGEST_PORT)):
        raise _not_an_address(address)
    if int(port) > _LARGEST_PORT:
        raise _not_an_address(address)
    return host.strip("[]") or "0.0.0.0", int(port)


def check_target(address: str) -> str:
    """Return the address of a service to be called. Raises AddressError.

    gRPC itself would call port 34463 for 99999, and 443 for none.
    """
    if address.startswith(_SCHEMES):
        return address
    host, _, _ = address.rpartition(":")
    _, port = split_address(address)
    if not host.strip("[]") or not port or "/" in host or any(map(str.isspace, host)):
        raise _not_an_address(address)
    return address


def _not_an_address(address: str) -> AddressError:
    return AddressError(f"address {address!r} is not host:port, such as 127.0.0.1:8080")
