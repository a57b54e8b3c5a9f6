"""Functions of IP addresses and networks in expressions.

Source: apiserver v0.36, pkg/cel/library/ip.go and cidr.go: no zones, no IPv4 addresses mapped into IPv6.
"""

from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from trimtab.planner.devices.cel.types import Overload, overload
from trimtab.planner.devices.cel.values import Cidr, EvaluationError

Address = IPv4Address | IPv6Address


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except (ValueError, AddressValueError):
        return None
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return None if "%" in text or is_mapped else address


def _address(text: str) -> Address:
    address = _parsed(text)
    if address is None:
        raise EvaluationError(f"{text!r} is no IP address")
    return address


def _parsed_network(text: str) -> Cidr | None:
    head, slash, bits = text.partition("/")
    address = _parsed(head)
    if not slash or address is None or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        return None
    return Cidr(address, int(bits)) if int(bits) <= address.max_prefixlen else None


def _network(text: str) -> Cidr:
    network = _parsed_network(text)
    if network is None:
        raise EvaluationError(f"{text!r} is no network")
    return network


def _contains(one: Cidr, address: Address) -> bool:
    return address.version == one.address.version and address in one.network


def _contains_network(one: Cidr, other: Cidr) -> bool:
    return _contains(one, other.network.network_address) and other.prefix >= one.prefix


def _is_global_unicast(address: Address) -> bool:
    is_broadcast = address.version == 4 and int(address) == 2**32 - 1
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (special or is_broadcast)


def _is_local_multicast(address: Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


NETWORK_FUNCTIONS: tuple[Overload, ...] = (
    overload("ip(string)", "ip", _address),
    overload("isIP(string)", "bool", lambda a: _parsed(a) is not None),
    overload("ip.isCanonical(string)", "bool", _is_canonical),
    overload("ip.family()", "int", lambda a: a.version),
    overload("ip.isUnspecified()", "bool", lambda a: a.is_unspecified),
    overload("ip.isLoopback()", "bool", lambda a: a.is_loopback),
    overload("ip.isLinkLocalUnicast()", "bool", lambda a: a.is_link_local),
    overload("ip.isLinkLocalMulticast()", "bool", _is_local_multicast),
    overload("ip.isGlobalUnicast()", "bool", _is_global_unicast),
    overload("cidr(string)", "cidr", _network),
    overload("isCIDR(string)", "bool", lambda a: _parsed_network(a) is not None),
    overload("cidr.containsIP(ip)", "bool", _contains),
    overload("cidr.containsIP(string)", "bool", lambda a, b: _contains(a, _address(b))),
    overload("cidr.containsCIDR(cidr)", "bool", _contains_network),
    overload("cidr.containsCIDR(string)", "bool", lambda a, b: _contains_network(a, _network(b))),
    overload("cidr.ip()", "ip", lambda a: a.address),
    overload("cidr.prefixLength()", "int", lambda a: a.prefix),
    overload("cidr.masked()", "cidr", lambda a: Cidr(a.network.network_address, a.prefix)),
)
