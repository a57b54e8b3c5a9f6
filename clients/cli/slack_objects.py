"""Slack for clusters with another autoscaler: CapacityBuffers if it reads them, otherwise pause pods. Decides names and
kinds; the planner decides the number and size of placeholders. Placeholders of CapacityBuffers are left out, because
those objects are in the cluster already.
"""

import hashlib
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from trimtab.clients.cli.answers.slack import set_of
from trimtab.clients.cli.options import BUFFERS
from trimtab.common.kubernetes.signals import ours
from trimtab.common.objects.pod_spec_exporter import Json, PodSpecExporter
from trimtab.common.objects.slack_requests import TOGETHER
from trimtab.v1 import plan_pb2

LABEL = ours.SLACK_OF.key
"""Names the set of placeholders that a pod stands for."""
PRIORITY_CLASS = "trimtab-slack"
PRIORITY = -10
"""Below every pod by default, and the lowest priority for which the Cluster Autoscaler still adds nodes."""
POD_GROUPS = "scheduling.k8s.io/v1alpha2"
"""Version of PodGroups of Kubernetes 1.36, the first that schedules by them."""
GANG_LABEL = ours.SLACK_GANG.key
"""Label by which the placeholders of a gang are in one domain; the planner sets it."""
_LONGEST_NAME = 50


class _Set(NamedTuple):
    """Equal placeholders: name of the set and of its objects, number, namespace, labels and spec of a pod.
    `object_name` : of the exported objects; `replicas` : the number; `is_gang` : all of them have room or none.
    """

    name: str
    object_name: str
    replicas: int
    namespace: str
    labels: dict[str, str]
    spec: Json
    is_gang: bool


def exported(slack: plan_pb2.SlackDecision, form: str) -> Json:
    """Return a `List` of objects that keep the same room."""
    if form == BUFFERS:
        items = [one for found in _sets(slack) for one in _buffer(found)]
    else:
        items = [_priority_class(), *(one for found in _sets(slack) for one in _pause_pods(found))]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _sets(slack: plan_pb2.SlackDecision) -> Iterator[_Set]:
    reader = PodSpecExporter(slack.dictionary)
    for name, rows in groupby(slack.placeholders, key=set_of):
        found = list(rows)
        first = found[0]
        if first.kind == plan_pb2.PlaceholderKind.CAPACITY_BUFFER:
            continue
        namespace = first.namespace or "default"
        labels, spec = reader.labels(first.label_set), reader.spec(first.spec)
        yield _Set(name, object_name(name), len(found), namespace, labels, spec, first.is_in_gang)


def object_name(name: str) -> str:
    """Return a name for objects of a set: the valid part of the set's name, plus a digest if that is not all of it."""
    plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"slack-{name}" if plain == name else f"slack-{plain}-{digest}".replace("--", "-")


def _buffer(placeholder_set: _Set) -> Iterator[Json]:
    """Yield a PodTemplate and the CapacityBuffer that refers to it."""
    metadata: Json = {"name": placeholder_set.object_name, "namespace": placeholder_set.namespace}
    together = {"annotations": {TOGETHER: "true"}} if placeholder_set.is_gang else {}
    labels = {"labels": placeholder_set.labels} if placeholder_set.labels else {}
    yield {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": metadata,
        "template": {"metadata": labels, "spec": placeholder_set.spec},
    }
    yield {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": metadata | together,
        "spec": {"podTemplateRef": {"name": placeholder_set.object_name}, "replicas": placeholder_set.replicas},
    }


def _priority_class() -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "Pause pods that keep room for others, which evict them",
    }


def _pause_pods(placeholder_set: _Set) -> Iterator[Json]:
    """Yield a Deployment of pause pods, for a gang after its PodGroup: the scheduler binds all of them or none, and if
    some are evicted, room for them is looked for until the gang is whole again.
    """
    if placeholder_set.is_gang:
        yield {
            "apiVersion": POD_GROUPS,
            "kind": "PodGroup",
            "metadata": {"name": placeholder_set.object_name, "namespace": placeholder_set.namespace},
            "spec": {"schedulingPolicy": {"gang": {"minCount": placeholder_set.replicas}}},
        }
    yield _deployment(placeholder_set)


def _deployment(placeholder_set: _Set) -> Json:
    """Return a Deployment of pause pods.

    They do not carry the labels of the pods that they stand for: Services would send them requests, and controllers
    would adopt them. Rules that keep those pods apart apply to the pause pods by a separate label.
    """
    labels = {LABEL: placeholder_set.object_name}
    of_domain = {key: value for key, value in placeholder_set.labels.items() if key == GANG_LABEL}
    group: Json = {"schedulingGroup": {"podGroupName": placeholder_set.object_name}} if placeholder_set.is_gang else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": placeholder_set.object_name, "namespace": placeholder_set.namespace},
        "spec": {
            "replicas": placeholder_set.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels | of_domain},
                "spec": {"priorityClassName": PRIORITY_CLASS, "enableServiceLinks": False}
                | group
                | _with_anti_affinity(placeholder_set.spec, labels),
            },
        },
    }


def _with_anti_affinity(spec: Json, labels: dict[str, str]) -> Json:
    """Keep the pods of a set apart as its real pods would be, by the set's own label.

    Uses topology spread rather than another anti-affinity term: when pods are removed to make room, kube-scheduler
    retries a waiting pod at once only if it matches all their anti-affinity terms, and otherwise after five minutes
    (interpodaffinity, isSchedulableAfterPodChange).
    """
    out, own = dict(spec), {"matchLabels": labels}
    spread = [
        {key: value for key, value in one.items() if key != "matchLabelKeys"} | {"labelSelector": own}
        for one in out.get("topologySpreadConstraints", ())
    ]
    rules: dict[str, Any] = dict(out.get("affinity", {})).get("podAntiAffinity", {})
    for topology in dict.fromkeys(term["topologyKey"] for terms in rules.values() for term in terms):
        alone = {"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
        # Kubernetes allows one constraint per pair of topology key and whenUnsatisfiable.
        same = ("topologyKey", "whenUnsatisfiable")
        spread = [one for one in spread if any(one.get(key) != alone[key] for key in same)]
        spread.append(alone)
    if spread:
        out["topologySpreadConstraints"] = spread
    return out
