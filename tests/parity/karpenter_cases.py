"""Clusters of the restated cases of Karpenter's tests (`data/karpenter_consolidation.yaml`), as Kubernetes objects."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.builders.kubernetes import (
    Json,
    daemon_set,
    node,
    node_affinity,
    node_group,
    pdb,
    persistent_volume,
    persistent_volume_claim,
    pod,
    replica_set,
)
from tests.builders.replacement import NOW_S, Outcome, plan

DATA = yaml.safe_load((Path(__file__).parent / "data" / "karpenter_consolidation.yaml").read_text(encoding="utf-8"))
OLD_S = 86_400
STEP = 0.1
"""Price by which types that are alike differ."""
WEB = replica_set("web", 99)
AGENT = daemon_set("agent")
SPOT_LABELS = {"karpenter.sh/capacity-type": "spot"}
DELETING = f"ToBeDeletedByClusterAutoscaler={NOW_S}:NoSchedule"
MIRROR = "kubernetes.io/config.mirror"


class KarpenterCase:
    """A case. node_names : in the order of the data; price_of : price per hour of each node; type_of : type of each
    node group."""

    def __init__(self, case: Json) -> None:
        self.case = case
        self.rows = [row for row in case["nodes"] for _ in range(row.get("count", 1))]
        self.node_names = [f"n{number}" for number in range(len(self.rows))]
        self.price_of = {
            name: DATA["types"][row["type"]].get("price", 0.0)
            for name, row in zip(self.node_names, self.rows, strict=True)
        }
        self.type_of: dict[str, str] = {}
        self._groups: list[Json] = []
        self._add_pools()
        self._add_offers()

    def objects(self) -> list[Json]:
        """Return the cluster as Kubernetes objects."""
        nodes = [_node(name, row) for name, row in zip(self.node_names, self.rows, strict=True)]
        return [WEB, AGENT, *self._groups, *nodes, *self._pods(), *self._volumes(), *self._budgets()]

    def settings(self) -> Json:
        """Return the settings that are Karpenter's: it asks for no least saving, and plans one command at a time."""
        usual: Json = {
            "stabilityMargin": 0, "minSavingShare": 0, "maxWaves": 1, "maxLeavingNodes": 100,
            "spot": {"enabled": True, "minAlternatives": 15},
        }  # fmt: skip
        if "balanced" in self.case:
            usual["minBalancedScore"] = 0.5
        more: Json = self.case.get("settings", {})
        return usual | more

    def node_budgets(self) -> list[Json]:
        """Return Karpenter's budgets for the nodes of each pool."""
        if "each_pool" not in self.case:
            return []
        return [{"nodeGroups": [one["metadata"]["name"]], "maxNodes": self.case["each_pool"]} for one in self._groups]

    def price_after(self, verdict: Json) -> float:
        """Return the price of the nodes of known price after a verdict."""
        goes, comes = verdict["go"], verdict.get("come", [])
        gone = list(self.price_of)[:goes] if isinstance(goes, int) else goes
        new = sum(DATA["types"][one]["price"] for one in comes)
        return float(sum(self.price_of.values()) - sum(self.price_of[one] for one in gone) + new)

    def _add_pools(self) -> None:
        members: dict[str, list[str]] = {}
        for number, (name, row) in enumerate(zip(self.node_names, self.rows, strict=True)):
            pool = f"{row['type']} {number % row.get('pools', 1)} {row.get('zone', '')}".strip()
            if not row.get("outside"):
                members.setdefault(pool, []).append(name)
                self.type_of[pool] = row["type"]
        for pool, names in members.items():
            rows = [self.rows[int(name[1:])] for name in names]
            least = len(names) if self.case.get("fixed") else 0
            self._add_group(pool, rows[0], 0.0, names=names, least=least)

    def _add_offers(self) -> None:
        for offer in self.case.get("offers", []):
            row = offer if isinstance(offer, dict) else {"type": offer}
            for number in range(DATA["types"][row["type"]].get("alike", 1)):
                name = f"{row['type']} new {number}"
                self.type_of[name] = row["type"]
                self._add_group(name, row, STEP * number)

    def _add_group(
        self, name: str, row: Json, more: float, names: tuple[str, ...] | list[str] = (), least: int = 0
    ) -> None:
        kind = DATA["types"][row["type"]]
        labels = SPOT_LABELS if kind.get("spot") or row.get("spot") else {}
        template = node("t", str(kind["cores"]), f"{kind['memory']}Gi", zone=row.get("zone", ""), labels=labels)
        price = kind["price"] + more if "price" in kind else None
        most = 20 if not names else len(names)
        made = node_group(name, least, most, nodes=list(names), target=len(names), price=price, template=template)
        self._groups.append(made)

    def _pods(self) -> Iterator[Json]:
        number = 0
        for row in self.case.get("pods", []):
            on = self.node_names if row["at"] == "all" else row["at"]
            for at in on:
                for _ in range(row.get("count", 1)):
                    yield _pod(f"p{number}", at, row)
                    number += 1

    def _volumes(self) -> Iterator[Json]:
        """Yield the volumes of pods that are bound to one of their node, and their claims."""
        for row in self.case.get("pods", []):
            for at in row["at"] if row.get("local") else ():
                only = node_affinity([("kubernetes.io/hostname", "In", [at])])["nodeAffinity"]
                terms = only["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
                path: Json = {"local": {"path": "/data"}}
                yield persistent_volume(f"of-{at}", source=path, affinity=terms)
                yield persistent_volume_claim(f"of-{at}", volume=f"of-{at}")

    def _budgets(self) -> Iterator[Json]:
        budgets = self.case.get("budgets", [])
        for number, budget in enumerate(budgets if isinstance(budgets, list) else [budgets]):
            made = pdb(f"test-{number}", budget["allowed"], labels={"app": "test"},
                       namespace=budget.get("namespace", "default"), healthy=1, desired=1, expected=1)  # fmt: skip
            if "unhealthy" in budget:
                made["spec"]["unhealthyPodEvictionPolicy"] = budget["unhealthy"]
            yield made


def decided(found: KarpenterCase) -> Outcome:
    """Decide with settings under which, as in Karpenter, nodes that are not ready stay, however many they are."""
    more: Json = {"scaleDown": {"unreadyEnabled": False, "okTotalUnreadyCount": 99}}
    more["planner"] = {"disruptionBudgets": found.node_budgets()}
    return plan(found.objects(), settings=found.settings(), more=more)


def check_verdict(case: Json) -> float:
    """Check that a plan has the verdict of a case: ours if it says why, else Karpenter's. Return by how much it is
    dearer than Karpenter's.
    """
    found = KarpenterCase(case)
    outcome = decided(found)
    expected: Json = case["ours"] if "ours" in case else case["karpenter"]
    went = sorted(name for wave in outcome.waves for name in wave[0])
    came = sorted(found.type_of[group] for wave in outcome.waves for group in wave[1])
    assert (went if isinstance(expected["go"], list) else len(went)) == expected["go"]
    assert came == sorted(expected.get("come", []))
    assert ("ours" in case) == ("why" in case)
    return found.price_after(expected) - found.price_after(case["karpenter"])


def _since(age_s: int) -> str:
    return datetime.fromtimestamp(NOW_S - age_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _node(name: str, row: Json) -> Json:
    kind = DATA["types"][row["type"]]
    labels = row.get("labels", {}) | (SPOT_LABELS if kind.get("spot") or row.get("spot") else {})
    return node(
        name, str(row.get("cores", kind["cores"])), "128Gi", zone=row.get("zone", ""), labels=labels,
        annotations=row.get("annotations"), ready=row.get("ready", True), created=_since(row.get("age", OLD_S)),
        taints=[DELETING] if row.get("deleting") else (),
    )  # fmt: skip


def _pod(name: str, at: str, row: Json) -> Json:
    owner = AGENT if row.get("daemon") else WEB
    annotations = row.get("annotations", {}) | ({MIRROR: "mirror"} if row.get("mirror") else {})
    more: dict[str, Any] = {
        "owner": owner if row.get("owner", True) and not row.get("mirror") else None,
        "labels": row.get("labels"),
        "annotations": annotations,
        "phase": row.get("phase"),
        "deletion": _since(1) if row.get("deletion") else None,
        "claims": [f"of-{at}"] if row.get("local") else (),
        "created": _since(row.get("age", OLD_S)),
        "node_selector": row.get("selector"),
        "affinity": _affinity(row),
    }
    if row.get("spread"):
        selector = {"matchLabels": row["labels"]}
        more["spread"] = [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": selector}
        ]  # fmt: skip
    if at:
        more["ready"] = row.get("ready", True)
    return pod(name, str(row["cores"]) if "cores" in row else None, None, node=at, **more)


def _affinity(row: Json) -> Json | None:
    if "prefers" in row:
        ((key, value),) = row["prefers"].items()
        wanted = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        soft = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wanted}]}
        return {"nodeAffinity": soft}
    if "apart" not in row:
        return None
    term: Json = {"labelSelector": {"matchLabels": row["labels"]}, "topologyKey": "kubernetes.io/hostname"}
    if row["apart"] == "preferred":
        rule = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
        return {"podAntiAffinity": rule}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
