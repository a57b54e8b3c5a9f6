"""Numbers of eight bytes, the lowest first, by Python's own conversion; texts by slices."""


def read(data: bytes, first: int) -> int:
    """Return the number in the 8 bytes from a position on."""
    return int.from_bytes(data[first : first + 8], "little")


def written(data: bytes, first: int, word: int) -> bytes:
    """Return the data with a number in the 8 bytes from a position on."""
    return data[:first] + word.to_bytes(8, "little") + data[first + 8 :]


def copied(out: bytes, at: int, text: bytes) -> bytes:
    """Return the data up to and including a text written at a position."""
    return out[:at] + text
