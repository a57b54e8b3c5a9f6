"""Functions of strings, whose positions count characters, and of IP addresses and networks.

Regular expressions are those of RE2, whose time is linear in the text. Addresses have no zones, and no IPv4 addresses
are mapped into IPv6.
Source: cel-go v0.26, ext strings, version 2; apiserver v0.36, pkg/cel/library/regex.go, ip.go and cidr.go.
"""

from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from trimtab.planner.devices.cel.values import Cidr, EvaluationError, Overload, extent, overload, reading, spend

_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = {value: key for key, value in _UPPER.items()}
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTED = str.maketrans({sign: f"\\{letter}" for sign, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)})
_PATTERNS = 64
_PATTERN_BYTES = 2 << 20
"""Patterns that are kept, and the most memory that each may take."""
_INSTRUCTIONS = 128
"""Instructions of a pattern that take as long as a step: about a microsecond."""


@lru_cache(maxsize=_PATTERNS)
def regular_expression(pattern: str) -> Any:
    """Return a compiled regular expression. Raises EvaluationError if it is none."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise EvaluationError(f"invalid matches argument: error parsing regexp: {error}") from None


def _contains(text: str, wanted: str) -> bool:
    # As the API server counts it.
    spend((1 + len(text) // 10) * (1 + len(wanted) // 10))
    return wanted in text


def _compiled(text: str, pattern: str) -> Any:
    """Return the compiled pattern; count a search, which at worst tries each of its instructions at each character."""
    expression = regular_expression(pattern)
    spend(1 + len(text) * expression.programsize // _INSTRUCTIONS)
    return expression


def _searched(text: str, pattern: str) -> Any:
    return _compiled(text, pattern).search(text)


def _found(text: str, pattern: str) -> str:
    match = _searched(text, pattern)
    return match.group() if match else ""


def _found_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    # Each search begins after the match before; an empty pattern matches everywhere.
    spend(len(text))
    matches = tuple([match.group() for match in _compiled(text, pattern).finditer(text)])
    return matches if limit < 0 else matches[:limit]


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(text: str, wanted: str, start: int = 0) -> int:
    if not wanted:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(wanted, start)


def _last_index_of(text: str, wanted: str, end: int | None = None) -> int:
    # Python's search from the end may take the product of both lengths.
    spend(extent(text) * extent(wanted))
    if end is None:
        return text.rfind(wanted)
    if not wanted:
        return end
    if end < 0:
        raise EvaluationError(f"index out of range: {end}")
    return -1 if end >= len(text) else text.rfind(wanted, 0, end + len(wanted))


def _replaced(text: str, old: str, new: str, limit: int = -1) -> str:
    count = len(text) + 1 if not old else text.count(old)
    spend((count if limit < 0 else min(count, limit)) * extent(new))
    return text.replace(old, new, limit)


def _joined(parts: tuple[Any, ...], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise EvaluationError("no such overload: join of what is no string")
    spend(sum(map(extent, parts)) + len(parts) * extent(separator))
    return separator.join(parts)


def _split(text: str, separator: str, limit: int = -1) -> tuple[str, ...]:
    if limit == 0:
        return ()
    if separator:
        return tuple(text.split(separator, -1 if limit < 0 else limit - 1))
    spend(len(text))
    head = text if limit < 0 else text[: limit - 1]
    return tuple(head) + ((text[limit - 1 :],) if 0 < limit <= len(text) else ())


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= last <= len(text):
        raise EvaluationError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _texts() -> tuple[Overload, ...]:
    out = [
        overload("string.contains(string)", "bool", _contains),
        overload("string.startsWith(string)", "bool", str.startswith),
        overload("string.endsWith(string)", "bool", str.endswith),
        overload("string.matches(string)", "bool", lambda a, b: _searched(a, b) is not None),
        overload("matches(string, string)", "bool", lambda a, b: _searched(a, b) is not None),
        overload("string.find(string)", "string", _found),
        overload("string.charAt(int)", "string", _char_at),
        overload("string.lowerAscii()", "string", lambda a: a.translate(_LOWER)),
        overload("string.upperAscii()", "string", lambda a: a.translate(_UPPER)),
        overload("string.trim()", "string", lambda a: a.strip(_SPACES)),
        overload("strings.quote(string)", "string", lambda a: f'"{a.translate(_QUOTED)}"'),
        overload("list(string).join()", "string", _joined),
        overload("list(string).join(string)", "string", _joined),
    ]
    for extra in ("", ", int"):
        out += [
            overload(f"string.findAll(string{extra})", "list(string)", _found_all),
            overload(f"string.indexOf(string{extra})", "int", _index_of),
            overload(f"string.lastIndexOf(string{extra})", "int", _last_index_of),
            overload(f"string.replace(string, string{extra})", "string", _replaced),
            overload(f"string.split(string{extra})", "list(string)", _split),
            overload(f"string.substring(int{extra})", "string", _substring),
        ]
    return tuple(out)


TEXT_FUNCTIONS: Final = _texts()


Address = IPv4Address | IPv6Address


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except (ValueError, AddressValueError):
        return None
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return None if "%" in text or is_mapped else address


def _parsed_network(text: str) -> Cidr | None:
    head, slash, bits = text.partition("/")
    address = _parsed(head)
    if not slash or address is None or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        return None
    return Cidr(address, int(bits)) if int(bits) <= address.max_prefixlen else None


def _contains_address(network: Cidr, address: Address) -> bool:
    return address.version == network.address.version and address in network.network


def _contains_network(network: Cidr, other: Cidr) -> bool:
    return _contains_address(network, other.network.network_address) and other.prefix >= network.prefix


def _is_global_unicast(address: Address) -> bool:
    is_broadcast = address.version == 4 and int(address) == 2**32 - 1
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (special or is_broadcast)


def _is_local_multicast(address: Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


_ADDRESSES = reading("ip", "isIP", "IP address", _parsed)
_NETWORKS = reading("cidr", "isCIDR", "network", _parsed_network)
_address, _network = _ADDRESSES[0].call, _NETWORKS[0].call


def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


NETWORK_FUNCTIONS: tuple[Overload, ...] = (
    *_ADDRESSES,
    overload("ip.isCanonical(string)", "bool", _is_canonical),
    overload("ip.family()", "int", lambda a: a.version),
    overload("ip.isUnspecified()", "bool", lambda a: a.is_unspecified),
    overload("ip.isLoopback()", "bool", lambda a: a.is_loopback),
    overload("ip.isLinkLocalUnicast()", "bool", lambda a: a.is_link_local),
    overload("ip.isLinkLocalMulticast()", "bool", _is_local_multicast),
    overload("ip.isGlobalUnicast()", "bool", _is_global_unicast),
    *_NETWORKS,
    overload("cidr.containsIP(ip)", "bool", _contains_address),
    overload("cidr.containsIP(string)", "bool", lambda a, b: _contains_address(a, _address(b))),
    overload("cidr.containsCIDR(cidr)", "bool", _contains_network),
    overload("cidr.containsCIDR(string)", "bool", lambda a, b: _contains_network(a, _network(b))),
    overload("cidr.ip()", "ip", lambda a: a.address),
    overload("cidr.prefixLength()", "int", lambda a: a.prefix),
    overload("cidr.masked()", "cidr", lambda a: Cidr(a.network.network_address, a.prefix)),
)
