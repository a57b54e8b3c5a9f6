"""Slack of a simulation: how much room was kept free, what it cost, and how much of it pods used.

Decides what counts: room is the requests of placeholders on nodes, from one round that decides on slack to the next. A
placeholder was used if the next answer has pushed it out from a node that stays; one whose node goes was not. Cpu in
milli-cores; time in seconds, Unix time; money in the currency of the prices.
"""

from collections.abc import Container
from typing import Any, NamedTuple

from trimtab.v1 import plan_pb2


class _Placed(NamedTuple):
    """A placeholder on a node. node : its name; cpu_milli : milli-cores that it keeps free."""

    node: str
    cpu_milli: int


class SlackUse:
    """The slack of one simulation."""

    def __init__(self) -> None:
        self.cpu_milli = 0
        """The amounts kept free now."""
        self._price_per_hour = 0.0
        self._since_s = 0.0
        self._milli_s = self._money = 0.0
        self._placed: dict[str, _Placed] = {}
        self._taken_count = self._taken_milli = 0

    def add(self, now_s: float, slack: plan_pb2.SlackDecision, staying: Container[str]) -> None:
        """Record an answer. staying : existing nodes that are not being deleted."""
        for name in slack.pushed_out:
            before = self._placed.get(name)
            if before is not None and before.node in staying:
                self._taken_count += 1
                self._taken_milli += before.cpu_milli
        self._placed = {one.name: _Placed(one.node, one.cpu_milli) for one in slack.placeholders if one.node}
        cpu_milli = slack.present.get("cpu", 0)
        if (cpu_milli, slack.price_per_hour) != (self.cpu_milli, self._price_per_hour):
            self._milli_s, self._money = self._until(now_s)
            self.cpu_milli, self._price_per_hour, self._since_s = cpu_milli, slack.price_per_hour, now_s

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return core-hours and money of the room that was kept, and the part used by pods: placeholders and cores."""
        milli_s, money = self._until(now_s)
        return {
            "slackCpuHours": round(milli_s / 3_600_000, 6),
            "slackMoney": round(money, 6),
            "slackTaken": self._taken_count,
            "slackTakenCpu": self._taken_milli / 1000,
        }

    def _until(self, now_s: float) -> tuple[float, float]:
        """Return milli-core-seconds and money up to a given time."""
        passed_s = now_s - self._since_s if self.cpu_milli or self._price_per_hour else 0.0
        return self._milli_s + self.cpu_milli * passed_s, self._money + self._price_per_hour * passed_s / 3600
