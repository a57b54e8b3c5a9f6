"""Loads what the real scheduler answered and turns its questions into plain Kubernetes objects.

A recorded document lists running pods (`pods`) and the pods asked about (`pending`) apart, and leaves out what the
API server's defaults put back. `objects` gives both as an API server would list them.

Pending pods that carry `spec.nodeName`: for an API server such a pod is bound and holds room on its node, for the
scheduler's NodeName plugin it is a question ("may this pod go to another node?"). Our snapshot knows only the first
meaning. Plugin NodeName depends on nothing but the two names, so the mapping is exact: `objects` takes the node name
off the pod, and `refusals` takes NodeName out of the expected answer; `pinned` says where it would have gone.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

DATA = Path(__file__).parent / "data"
SETS = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))
NASTY = sorted(path.stem for path in (DATA / "nasty").glob("*.yaml"))

SECTIONS = {
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver"),
}

#: Messages of VolumeBinding and VolumeZone that speak of a node. Any other is about a claim that no node can help
#: with; then the other volume plugins fail with it or not by accident of their own look-ups.
NODE_MESSAGES = frozenset(
    {
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) had no available volume zone",
    }
)
VOLUME_PLUGINS = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})

Refusals = dict[str, dict[str, str]]
"""Node to the plugins that refuse it, each with its message. A node that was asked about and refused by none is {}."""


class Recorded(NamedTuple):
    """One document with the scheduler's answers. `invalid`: what the API server refuses, by "pod/NS/NAME"."""

    name: str
    document: dict[str, Any]
    answers: list[dict[str, Any]]
    invalid: dict[str, list[str]]

    @property
    def mode(self) -> str:
        return str(self.document.get("mode", "matrix"))

    @property
    def gates(self) -> dict[str, bool]:
        """Feature gates of the scheduler that differ from its defaults."""
        return dict(self.document.get("featureGates", {}))

    @property
    def node_names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.document["nodes"]]

    def nodes_seen(self, answer: dict[str, Any]) -> list[str]:
        """The nodes that one answer is about, in the order in which they were looked at."""
        if self.mode == "verify":
            return [answer["node"]]
        if self.mode != "simulate":
            return self.node_names
        order = self.document.get("nodeOrder", self.node_names)
        return order[: order.index(answer["node"]) + 1] if answer["node"] else order


class _Documents(Mapping[str, Recorded]):
    """Documents by name, each read when it is asked for: to name all takes a tenth of the time of reading them."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = {_NAMES.decode(line).document.name: line for line in lines}

    def __getitem__(self, name: str) -> Recorded:
        row = msgspec.json.decode(self._lines[name])
        return Recorded(name, row["document"], row["answers"], {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


class _Named(msgspec.Struct):
    name: str


class _Line(msgspec.Struct):
    document: _Named


_NAMES = msgspec.json.Decoder(_Line)


@cache
def recorded(name: str) -> Mapping[str, Recorded]:
    """All documents of one set, by name."""
    return _Documents(gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines())


def nasty(name: str) -> Recorded:
    """One hand-written document."""
    path = DATA / "nasty" / f"{name}.yaml"
    answers = json.loads(path.with_suffix(".answers.json").read_text())
    return Recorded(name, yaml.safe_load(path.read_text()), answers["answers"], answers.get("invalid", {}))


def valid_part(one: Recorded, *, only: str = "") -> Recorded:
    """The document without the pods that the API server refuses, or with `only` ("pod/NS/NAME") of its pods."""
    keep = [
        pod
        for pod in one.document.get("pending", [])
        if (f"pod/{key_of(pod)}" == only if only else f"pod/{key_of(pod)}" not in one.invalid)
    ]
    keys = {key_of(pod) for pod in keep}
    answers = [answer for answer in one.answers if answer["pod"] in keys or one.mode == "selfcheck"]
    return one._replace(document={**one.document, "pending": keep}, answers=answers)


def key_of(pod: dict[str, Any]) -> str:
    """ "namespace/name" of a pod object."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def _pod(pod: dict[str, Any], phase: str) -> dict[str, Any]:
    made = {"apiVersion": "v1", "kind": "Pod", **pod}
    made["metadata"] = {"namespace": "default", "uid": key_of(pod), "labels": {}, **made["metadata"]}
    spec = made["spec"] = {"containers": [{"name": "c0"}], **(made.get("spec") or {})}
    for prefix, field in (("c", "containers"), ("i", "initContainers")):
        if field in spec:
            spec[field] = [{"name": f"{prefix}{index}", **one} for index, one in enumerate(spec[field])]
    made["status"] = {"phase": phase, **made.get("status", {})}
    return made


def pending(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The pods asked about, in their order, without node names."""
    pods = [_pod(pod, "Pending") for pod in document.get("pending", [])]
    for pod in pods:
        pod["spec"].pop("nodeName", None)
    return pods


def pinned(document: dict[str, Any]) -> dict[str, str]:
    """Pending pods that name their node, with that node."""
    named = {key_of(pod): (pod.get("spec") or {}).get("nodeName", "") for pod in document.get("pending", [])}
    return {pod: node for pod, node in named.items() if node}


def objects(document: dict[str, Any], *, with_pending: bool = True) -> list[dict[str, Any]]:
    """Every object of the document; a list without items says that there are no claims (not: none were given).

    They share what they consist of with the document.
    """
    made: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "items": []}]
    made += [
        {"apiVersion": version, "kind": kind, **item}
        for section, (version, kind) in SECTIONS.items()
        for item in document.get(section, [])
    ]
    made += [_pod(pod, "Running") for pod in document.get("pods", [])]
    return made + (pending(document) if with_pending else [])


def refusals(answer: dict[str, Any], asked: list[str]) -> Refusals:
    """Per node asked about, the plugins that refuse it; without NodeName (see above)."""
    result: Refusals = {node: {} for node in asked}
    for plugin, messages in answer.get("failing", {}).items():
        for message, nodes in messages.items():
            for node in nodes:
                if plugin != "NodeName":
                    result[node][plugin] = message
    return result


def claim_is_unusable(plugins: dict[str, str]) -> bool:
    """Whether VolumeBinding or VolumeZone refuses the pod because of its claims, whatever the node."""
    messages = [plugins[plugin] for plugin in ("VolumeBinding", "VolumeZone") if plugin in plugins]
    return any(part not in NODE_MESSAGES for message in messages for part in message.split("; "))
