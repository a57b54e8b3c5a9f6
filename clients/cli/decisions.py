"""`--decision`: names of decisions as people type them."""

from collections.abc import Sequence

from trimtab.v1 import plan_pb2

from clients.cli.failures import InputError

DEFAULT = (plan_pb2.Decision.SCALE_DOWN,)
"""The decisions without the option: those that this build can take."""


def read_decisions(names: Sequence[str]) -> list[plan_pb2.Decision.Code.ValueType]:
    """Read names such as "scale-down" or "SCALE_DOWN"; a repetition counts once."""
    known = {name: value for name, value in plan_pb2.Decision.Code.items() if value}
    chosen = []
    for name in names:
        key = name.strip().upper().replace("-", "_")
        if key not in known:
            names_known = ", ".join(one.lower().replace("_", "-") for one in known)
            raise InputError(f"--decision {name}: there is no such decision; there are {names_known}")
        if known[key] not in chosen:
            chosen.append(known[key])
    return chosen or list(DEFAULT)
