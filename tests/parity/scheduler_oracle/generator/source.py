"""The only source of randomness of a generated cluster, and the features that it may use.

A feature that is switched off still consumes the same random numbers, so that clusters with and
without it resemble each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Everything a Filter plugin may look at. `volumes` and the features of `additions` are asked for by name only.
FEATURES = frozenset(
    {
        *("taints", "nodeSelector", "nodeAffinity", "matchFields", "unschedulable", "nodeName"),
        *("extended", "init", "sidecar", "overhead", "podLevel", "limitsOnly", "ephemeral", "hostPorts"),
        *("podAffinity", "podAntiAffinity", "namespaces", "matchLabelKeys"),
        *("spread", "minDomains", "spreadPolicies"),
        *("terminating", "terminal", "gates"),
    }
)

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REGION = "topology.kubernetes.io/region"
RACK = "example.com/rack"
APPS = ["web", "api", "db", "cache", "batch", "ml", "log", "queue"]
TIERS = ["front", "back", "data"]
NAMESPACES = {
    "default": {},
    "sandbox": {"env": "dev"},
    "team-a": {"team": "a", "env": "prod"},
    "team-b": {"team": "b", "env": "prod"},
}
EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
TAINTS = [
    ("dedicated", "gpu"),
    ("dedicated", "db"),
    ("spot", "true"),
    ("example.com/maint", ""),
    ("node.kubernetes.io/disk-pressure", ""),
]


class Source:
    """Seeded chance, restricted to a set of features."""

    def __init__(self, seed: int, features: Iterable[str]) -> None:
        self.random = random.Random(seed)
        self.features = frozenset(features)

    def chance(self, probability: float, feature: str | None = None) -> bool:
        hit = self.random.random() < probability
        return hit and (feature is None or feature in self.features)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.random.randrange(len(choices))]

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        return self.random.sample(list(choices), min(len(choices), self.random.randint(least, most)))

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)
