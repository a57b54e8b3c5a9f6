"""The answer of `trimtab rightsize` for people and programs: pools, now and then for each level, pods without a place.

Decides what is shown; a month has 730 hours. Used cpu and memory are requests of pods, without those of DaemonSets, as
shares of what the nodes offer to pods.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.blocks import AnswerPage, Block, Sentence, Style, Table, rows
from trimtab.clients.cli.options import Level
from trimtab.clients.cli.rightsize.empty_cluster import EmptyCluster
from trimtab.clients.cli.rightsize.sizing import SizedGroup, Sizing, SizingLimits
from trimtab.prices import HOURS_A_MONTH, behind_amount

Json = dict[str, Any]
_SHOWN = ("cpu", "memory")


class NowCosts(NamedTuple):
    """The worker nodes as they are. price : for an hour, of those with a price; unpriced : those without."""

    node_count: int
    price: float
    unpriced: int


class Comparison(NamedTuple):
    """All that the answer shows. levels : None = the list has no machine of that level."""

    now: NowCosts
    levels: Mapping[Level, Sizing | None]
    level: Level
    empty: EmptyCluster
    limits: SizingLimits
    currency: str

    def is_like_for_like(self, sizing: Sizing) -> bool:
        """Whether now and then can be compared: all nodes have prices, all pods run now, and have a place then."""
        are_known = bool(self.now.price) and not self.now.unpriced
        return are_known and not self.empty.waiting_count and not sizing.unplaced

    @property
    def chosen(self) -> Sizing | None:
        """The sizing of the chosen level."""
        return self.levels[self.level]


def document(compared: Comparison) -> Json:
    """Return the answer for programs."""
    now, sizing = compared.now, compared.chosen
    assert sizing is not None, "the level was checked"
    return {
        "currency": compared.currency,
        "now": {
            "nodes": now.node_count,
            "pricePerHour": round(now.price, 6),
            "pricePerMonth": round(now.price * HOURS_A_MONTH, 2),
            "unpricedNodes": now.unpriced,
        },
        "level": compared.level.value,
        "headroom": str(compared.limits.headroom),
        "levels": {level.value: _summary(one) for level, one in compared.levels.items() if one is not None},
        "pools": [_group(group, compared.empty) for group in sizing.groups],
        "unplaced": [{"pod": pod, "reason": why} for pod, why in sorted(sizing.unplaced.items())],
        "verified": sizing.is_verified,
    }


def _summary(sizing: Sizing) -> Json:
    return {
        "nodes": sizing.node_count,
        "pools": len(sizing.pools),
        "pricePerHour": round(sizing.price, 6),
        "pricePerMonth": round(sizing.price * HOURS_A_MONTH, 2),
        "unplacedPods": len(sizing.unplaced),
    }


def _group(group: SizedGroup, empty: EmptyCluster) -> Json:
    key = group.machine.offer.key
    return {
        "pool": group.machine.pool,
        "nodeGroup": group.machine.group,
        "instanceType": key.instance_type,
        "zone": key.zone,
        "capacityType": key.capacity_type,
        "labels": dict(group.machine.profile.labels),
        "taints": [f"{name}={value}:{effect}" for name, value, effect in group.machine.profile.taints],
        "nodes": group.node_count,
        "pricePerHour": round(group.price, 6),
        "pods": sum(map(len, group.pods)),
        "used": {name: round(share, 4) for name, share in _used(group, empty).items()},
    }


def _used(group: SizedGroup, empty: EmptyCluster) -> dict[str, float]:
    total = empty.total(pod for pods in group.pods for pod in pods)
    has = {name: group.machine.amount(name) * group.node_count for name in _SHOWN}
    return {name: total.get(name, 0) / amount if amount else 0.0 for name, amount in has.items()}


def page(compared: Comparison) -> AnswerPage:
    """Return the headline, the pools, the levels, and pods without a place."""
    sizing = compared.chosen
    assert sizing is not None, "the level was checked"
    headline = Sentence(_headline(compared, sizing), Style.HEADLINE)
    return AnswerPage(
        "Right sizes", (headline, _pools(compared, sizing), _levels(compared), *_endnotes(compared, sizing))
    )


def _headline(compared: Comparison, sizing: Sizing) -> str:
    now, then = compared.now.price * HOURS_A_MONTH, sizing.price * HOURS_A_MONTH
    currency = behind_amount(compared.currency)
    placed = counted(len(compared.empty.pods) - len(sizing.unplaced), "pod")
    waiting = f", {compared.empty.waiting_count} of which wait now," if compared.empty.waiting_count else ""
    what = f"{placed}{waiting} on {counted(sizing.node_count, 'node')} in {counted(len(sizing.pools), 'pool')}"
    cost = f"{money(then)}{currency} a month"
    if not now or not compared.is_like_for_like(sizing):
        return f"{what}: {cost}."
    return f"{what}: {cost}; now {counted(compared.now.node_count, 'node')} for {money(now)}{currency}."


def _pools(compared: Comparison, sizing: Sizing) -> Table:
    cells = []
    for group in sizing.groups:
        key, used = group.machine.offer.key, _used(group, compared.empty)
        money_cells = f"{group.machine.price:.4f}", money(group.price * HOURS_A_MONTH)
        shares = percent(used["cpu"]), percent(used["memory"])
        what = group.machine.pool, key.instance_type, key.zone or "any", f"{group.node_count}"
        cells.append((*what, *money_cells, *shares, f"{sum(map(len, group.pods))}"))
    columns = ("pool", "type", "zone", "nodes", "price/h", "month", "cpu used", "memory used", "pods")
    return Table("Pools", columns, rows(cells), sentences=columns[:3])


def _levels(compared: Comparison) -> Table:
    now = compared.now.price * HOURS_A_MONTH
    priced = f"{'more than ' if compared.now.unpriced else ''}{money(now)}" if now else "unknown"
    cells = [("now", f"{compared.now.node_count}", "", priced, "", "")]
    for level, sizing in compared.levels.items():
        name = f"{level.value} *" if level is compared.level else level.value
        if sizing is None:
            cells.append((name, "", "", "not in the list", "", ""))
            continue
        then = sizing.price * HOURS_A_MONTH
        saved = percent((now - then) / now) if compared.is_like_for_like(sizing) else ""
        pods = f"{len(sizing.unplaced)}" if sizing.unplaced else ""
        cells.append((name, f"{sizing.node_count}", f"{len(sizing.pools)}", money(then), saved, pods))
    columns = ("level", "nodes", "pools", "month", "saved", "no place")
    return Table("Now and then", columns, rows(cells), sentences=columns[:1])


def _endnotes(compared: Comparison, sizing: Sizing) -> Iterator[Block]:
    if compared.now.unpriced:
        yield Sentence(f"{counted(compared.now.unpriced, 'node')} without a price in the list; --prices gives it.")
    if sizing.unplaced:
        lines = []
        for why, count in sorted(Counter(sizing.unplaced.values()).items(), key=lambda one: (-one[1], one[0])):
            example = min(pod for pod, reason in sizing.unplaced.items() if reason == why)
            lines.append((f"{count}", f"{why} (such as {example})"))
        title, columns = f"{counted(len(sizing.unplaced), 'pod')} without a place", ("pods", "because")
        yield Table(title, columns, rows(lines), sentences=columns[1:])
    if str(compared.limits.headroom):
        yield Sentence(f"On each node, {compared.limits.headroom} stays free.", Style.MUTED)
    whose = "every other pod" if sizing.unplaced else "every pod"
    told = (
        f"These groups were planned again: {whose} found its place."
        if sizing.is_verified
        else "These groups were planned again, and some pods found no place; give the groups more room."
    )
    yield Sentence(told, Style.MUTED)
