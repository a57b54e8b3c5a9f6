"""A proof that gangs of placeholders are served whole or not at all, from the messages only, without planner code.

For clusters of plain pods that have only requests, where slack keeps room for gangs alone. Equal placeholders are
counted: a node has room for as many as its free amounts hold.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from tests.builders.snapshots import Cluster
from tests.certificates.slack import Amounts, free, takes
from trimtab.places import new_nodes, on_existing
from trimtab.v1 import plan_pb2 as pb


def offences(cluster: Cluster, answer: pb.PlanResponse) -> list[str]:
    """Return the violations of the answer of slack and scale-up; [] = none."""
    gangs: dict[str, list[pb.Placeholder]] = defaultdict(list)
    for one in answer.slack.placeholders:
        gangs[one.name.rpartition("-")[0]].append(one)
    keys = {one.object: one.topology_key for one in answer.slack.objects}
    plan = _Plan(cluster, answer)
    found = [text for name, rows in sorted(gangs.items()) for text in plan.check(name, rows, keys[rows[0].for_object])]
    return found + plan.too_full() + _counts(answer, gangs)


def _counts(answer: pb.PlanResponse, gangs: Mapping[str, list[pb.Placeholder]]) -> list[str]:
    """Return the objects whose numbers of pods and gangs are not those of the placeholders."""
    asked, present = Counter[str](), Counter[str]()
    for rows in gangs.values():
        asked[rows[0].for_object] += 1
        present[rows[0].for_object] += all(one.node for one in rows)
    return [
        f"{one.object} counts {one.present_gang_count} of {one.asked_gang_count} gangs"
        for one in answer.slack.objects
        if (one.asked_gang_count, one.present_gang_count) != (asked[one.object], present[one.object])
    ]


class _Plan:
    """What a plan does, and the room that it leaves."""

    def __init__(self, cluster: Cluster, answer: pb.PlanResponse) -> None:
        up = answer.scale_up
        self._pods_wait = any(not pod.node for pod in cluster.pods.values())
        self._cluster, self._is_only = cluster, len({one.for_object for one in answer.slack.placeholders}) == 1
        self._waits = {name for one in up.waiting_placeholders for name in one.pods if one.detail}
        self._on_new = [(group, pods) for group, nodes in new_nodes(up).items() for pods in nodes]
        self._new = {pod: group for group, pods in self._on_new for pod in pods}
        self._rows = {one.name: one for one in answer.slack.placeholders}
        self._free = free(cluster, on_existing(up))
        for one in answer.slack.placeholders:
            if one.node:
                room = self._free[one.node]
                self._free[one.node] = (room[0] - one.cpu_milli, room[1] - one.memory_bytes, room[2] - 1)

    def check(self, name: str, rows: list[pb.Placeholder], key: str) -> Iterator[str]:
        """Yield what is wrong with one gang. key : label that its nodes share, "" = none."""
        size = (rows[0].cpu_milli, rows[0].memory_bytes, 1)
        on = [one.node for one in rows if one.node]
        waiting = [one.name for one in rows if one.name in self._waits]
        new = [self._new[one.name] for one in rows if one.name in self._new]
        if not all(one.is_in_gang for one in rows):
            yield f"{name} is no gang"
        if len(on) not in (0, len(rows)):
            yield f"{len(on)} of {len(rows)} of {name} have nodes"
        if len(waiting) not in (0, len(rows)) or (waiting and (on or new)):
            yield f"{name}: {len(waiting)} wait, {len(on)} have nodes, {len(new)} get new ones"
        domains = {self._domain(self._cluster.nodes[node].labels, key) for node in on}
        domains |= {self._domain(self._template(group), key) for group in new}
        if len(domains) > 1 or (key and None in domains):
            yield f"{name} is in the domains {sorted(map(str, domains))}"
        most = self._room(size, key, domains)
        if self._is_only and not self._pods_wait and waiting and most >= len(rows):
            yield f"{name} waits, and existing nodes have room for all of it"
        if self._is_only and not waiting and not on and most + len(new) < len(rows):
            yield f"{len(new)} of {len(rows)} of {name} get new nodes, and {most} fit the others"

    def too_full(self) -> list[str]:
        """Return the nodes, new ones included, with more than they have room for."""
        found = [f"{node} holds more than it has" for node, room in self._free.items() if min(room) < 0]
        for group, pods in self._on_new:
            room = dict(self._cluster.groups[group].template.allocatable)  # type: ignore[union-attr]
            for pod in pods:
                for name, amount in self._requests(pod):
                    room[name] -= amount
            found += [f"a new node of {group} holds more than it has"] if min(room.values()) < 0 else []
        return found

    def _requests(self, pod: str) -> list[tuple[str, int]]:
        if pod in self._rows:
            one = self._rows[pod]
            return [("cpu", one.cpu_milli), ("memory", one.memory_bytes), ("pods", 1)]
        namespace, name = pod.split("/")
        return [*self._cluster.pods[namespace, name].spec.requests, ("pods", 1)]

    def _template(self, group: str) -> Mapping[str, str]:
        template = self._cluster.groups[group].template
        assert template is not None
        return template.labels

    def _domain(self, labels: Mapping[str, str], key: str) -> str | None:
        return labels.get(key) if key else ""

    def _room(self, size: Amounts, key: str, chosen: set[str | None]) -> int:
        """Return how many placeholders fit on existing nodes: those of the chosen domain, or of the best one."""
        by_domain = Counter[str]()
        for name, room in self._free.items():
            domain = self._domain(self._cluster.nodes[name].labels, key)
            if domain is not None and (not chosen or domain in chosen):
                by_domain[domain] += takes(room, size)
        return max(by_domain.values(), default=0)
