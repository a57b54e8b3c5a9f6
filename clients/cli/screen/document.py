"""The screen as JSON for the page: short rows without names, since there may be thousands, and texts once."""

from typing import Any

from trimtab.clients.cli.answers.costs import assumption_of
from trimtab.clients.cli.screen.model import ClusterScreen

Json = dict[str, Any]


def screen_document(screen: ClusterScreen) -> Json:
    """Return what the page shows. Shares in per cent; a price that is not known is null. O(nodes)."""
    texts: dict[str, int] = {}

    def index(text: str) -> int:
        return texts.setdefault(text, len(texts))

    summary = screen.summary
    nodes = [
        [
            one.name,
            index(one.group),
            _percent(one.cpu),
            _percent(one.memory),
            one.pods,
            _price(one.price),
            index(one.state.value),
            index(one.verdict),
        ]
        for one in screen.nodes
    ]
    return {
        "name": screen.name,
        "time": screen.time_s,
        "figures": {
            "nodes": summary.now.node_count,
            "removed": summary.removed_node_count,
            "added": summary.added_node_count,
            "perMonth": round(summary.now.price_per_month, 2),
            "perMonthAfter": round(summary.after.price_per_month, 2),
            "withoutPrice": summary.now.unpriced_node_count,
            "assumption": assumption_of(summary),
            "currency": screen.currency,
        },
        "cpu": _percent(screen.cpu),
        "memory": _percent(screen.memory),
        "waiting": screen.waiting,
        "sentences": list(screen.sentences),
        "groups": [[*one[:6], _percent(one.cpu), _percent(one.memory), _price(one.price)] for one in screen.groups],
        "nodes": nodes,
        "texts": list(texts),
        "pending": [[len(one.pods), one.owner, one.reason, one.is_served] for one in screen.pending],
        "removals": [
            [*one[:3], round(one.seconds), *(one[4:6] if one.is_drain else (None, None)), one.is_over, one.detail]
            for one in screen.removals
        ],
        "growth": [[*one[:5], _price(one.price), one.reason] for one in screen.growth],
    }


def _percent(share: float) -> int:
    return round(100 * share)


def _price(price: float | None) -> float | None:
    return None if price is None else round(price, 4)
