"""The bytes of a value by its content: equal for equal values, in any process.

Numbers beyond 64 bits, as quantities of devices in nano-units may be, are the exception that msgpack lacks.
"""

import msgspec

_encode = msgspec.msgpack.Encoder().encode


def encoded(value: object) -> bytes:
    """Return the bytes of a value."""
    try:
        return _encode(value)
    except OverflowError:
        return repr(value).encode()
