"""Numbers as protobuf writes them, by arithmetic."""


def varint(value: int) -> bytes:
    """Return a number of at least 0 in base 128, the lowest digit first, with the high bit set in all but the last."""
    digits = [value % 128]
    while value := value // 128:
        digits.append(value % 128)
    return bytes([*(digit + 128 for digit in digits[:-1]), digits[-1]])
