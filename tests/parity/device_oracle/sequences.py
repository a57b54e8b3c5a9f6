"""Random sequences of pods with claims of their own, named ones that they share, and those of PodGroups, that come and
go, over devices of nodes and devices that several nodes reach; as documents of the device oracle.
"""

from typing import Any

from tests.parity.device_oracle.clusters import FEATURES, Clusters

Json = dict[str, Any]


class Sequences(Clusters):
    """Draws documents; each seed gives one. More pools are reached by several nodes than in `Clusters`."""

    local_chance = 0.45

    def document(self, name: str) -> Json:
        """Return a cluster and steps."""
        self.with_odd = False
        slices = self.slices()
        named = [self.claim(f"shared-{at}") for at in range(self.random.randint(1, 3))]
        of_groups = [self.claim(f"group-{at}") for at in range(self.random.randint(0, 2))]
        own: list[Json] = []
        steps: list[Json] = []
        there: list[str] = []
        for number in range(self.random.randint(3, 8)):
            pod = f"p{number}"
            wanted = [one["metadata"]["name"] for one in self.some([*named, *of_groups])]
            if not wanted or self.chance(0.3):
                own.append(self.claim(f"own-{number}"))
                wanted.insert(self.random.randint(0, len(wanted)), f"own-{number}")
            leaves = [one for one in there if self.chance(0.25)]
            there = [one for one in there if one not in leaves] + [pod]
            steps.append({"pod": pod, "claims": wanted, "leaves": leaves})
        return {
            "name": name,
            "features": FEATURES,
            "nodes": [{"metadata": {"name": one, "labels": {"zone": self.random.choice("ab")}}} for one in self.nodes],
            "classes": [self.device_class(f"c{at}") for at in range(3)],
            "slices": slices,
            "allocated": self.allocated(slices) if self.chance(0.3) else [],
            "claims": [*named, *of_groups, *own],
            "kept": [one["metadata"]["name"] for one in of_groups],
            "steps": steps,
        }

    def some(self, claims: list[Json]) -> list[Json]:
        """Return one or two claims, or none, without repetition."""
        return self.random.sample(claims, min(self.random.choice((0, 1, 1, 1, 2)), len(claims)))
