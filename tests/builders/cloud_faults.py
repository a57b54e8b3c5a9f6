"""A cloud whose calls fail: each in every way, a number of times, and in the end as it should.

`FaultyCloud` stands before any `CloudProvider`. Kinds: throttled (nothing was done), lost (done, and no answer),
partial (half of it is done, or told), wrong (a refusal that refuses nothing, an answer that knows nothing), slow, and
late (what changes something is done only before the next call; what reads answers as before).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from actuator.cloud.provider import CloudError, CloudProvider, CloudRefusedError, GroupOptions, InstanceState

READS: Final = (
    "refresh", "node_groups", "groups_of", "instances", "instance_states", "remember", "was_set", "template",
    "price_per_hour", "options", "activities",
)  # fmt: skip
WRITES: Final = ("delete_instances", "set_size", "decrease_target")
KINDS: Final = ("throttled", "lost", "partial", "wrong", "slow", "late")
SLOW_S: Final = 45.0


class FaultyCloud:
    """A `CloudProvider` whose calls fail as often as they are told to. `remember` makes no call: it is slow at most."""

    def __init__(self, cloud: CloudProvider, sleep: Callable[[float], None]) -> None:
        self.real = cloud
        self.name, self.gpu_label = cloud.name, cloud.gpu_label
        # By operation: the kind, and the calls that pass before, and that fail then.
        self.faults: dict[str, tuple[str, int, int]] = {}
        self.struck: Counter[str] = Counter()
        self._sleep = sleep
        self._late: list[Callable[[], Any]] = []
        # Latest answers by call.
        self._known: dict[Any, Any] = {}

    def fail(self, operation: str, kind: str, times: int, after: int = 0) -> None:
        """Let calls of an operation fail, after so many that do not."""
        self.faults[operation] = kind, after, times

    def _call(self, operation: str, *args: Any) -> Any:
        for call in self._late:
            with suppress(CloudError):
                call()
        self._late.clear()
        kind, after, times = self.faults.get(operation, ("", 0, 0))
        if after or not times:
            self.faults[operation] = kind, max(0, after - 1), times
            return self._do(operation, args)
        self.faults[operation] = kind, 0, times - 1
        self.struck[operation] += 1
        return self._strike(operation, kind, args)

    def _do(self, operation: str, args: Sequence[Any]) -> Any:
        answer = getattr(self.real, operation)(*args)
        self._known[operation, repr(args)] = answer
        return answer

    def _strike(self, operation: str, kind: str, args: Sequence[Any]) -> Any:
        if kind == "slow" or operation == "remember":
            self._sleep(SLOW_S)
            return self._do(operation, args)
        if kind == "throttled":
            raise CloudError("throttled")
        if kind == "lost":
            self._do(operation, args)
            raise CloudError("timed out")
        if operation in WRITES:
            return self._strike_write(operation, kind, args)
        if kind == "late":
            key = operation, repr(args)
            return self._known[key] if key in self._known else self._do(operation, args)
        answer = self._do(operation, args)
        return _half(answer) if kind == "partial" else _nothing(operation, args, answer)

    def _strike_write(self, operation: str, kind: str, args: Sequence[Any]) -> Any:
        if kind == "wrong":
            raise CloudRefusedError("nothing is wrong with it")
        if kind == "late":
            self._late.append(lambda: self._do(operation, args))
            raise CloudError("timed out")
        if operation == "delete_instances":
            group, instances = args
            most = (len(instances) + 1) // 2
            failed = dict(self._do(operation, (group, instances[:most])))
            return failed | dict.fromkeys(instances[most:], CloudError("not yet"))
        group, expected, wanted, *token = args
        self._do(operation, (group, expected, (expected + wanted) // 2, *[f"{one}/half" for one in token]))
        raise CloudError("half of it was done")


def _half(answer: Any) -> Any:
    """Return the first half of an answer."""
    if isinstance(answer, Mapping):
        return dict(list(answer.items())[: len(answer) // 2])
    return answer[: len(answer) // 2] if isinstance(answer, list) else answer


def _nothing(operation: str, args: Sequence[Any], answer: Any) -> Any:
    """Return the answer of a cloud that has forgotten everything."""
    match operation:
        case "instances":
            return {group: [] for group in args[0]}
        case "instance_states":
            return dict.fromkeys(args[1], InstanceState.UNKNOWN)
        case "was_set":
            return False
        case "options":
            return GroupOptions()
        case "groups_of":
            return {}
        case "node_groups" | "activities":
            return []
        case _:
            return None if operation in ("template", "price_per_hour") else answer


def _method(operation: str) -> Callable[..., Any]:
    def method(self: FaultyCloud, *args: Any) -> Any:
        return self._call(operation, *args)

    return method


for _name in (*READS, *WRITES):
    setattr(FaultyCloud, _name, _method(_name))
