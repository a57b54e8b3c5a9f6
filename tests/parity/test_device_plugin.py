"""Cases of the scheduler's own table for its plugin: `fit` says of each node what the plugin's Filter says, or that the
pod waits where PreEnqueue or PreFilter ends the attempt.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as groups
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.round.work import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import PredicateReason

Json = dict[str, Any]
CASES: list[Json] = yaml.safe_load((Path(__file__).parent / "data/devices/plugin.yaml").read_text())
EXTENDED = "example.com/gpu"
CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def device(name: str) -> Json:
    """Return a device; names say what is special about it."""
    more: Json = {"taints": [{"key": "broken", "effect": "NoSchedule"}]} if name == "tainted" else {}
    return dra.device(name, **(more | (CONDITIONS if name == "bound" else {})))


def reading(attribute: str) -> list[Json]:
    return [{"cel": {"expression": f'device.attributes["{dra.DRIVER}"].{attribute}'}}]


def claim(name: str, of: Json, pod: Json) -> Json:
    """Return a claim, with the first device of a node if it has one."""
    more = {"selectors": reading(of["reads"])} if "reads" in of else {}
    more |= {"adminAccess": True} if of.get("admin") else {}
    request = dra.request(of_class=of.get("class", "gpu"), **more)
    if "first" in of:
        alternatives = [
            {"name": f"sub-{at}", "deviceClassName": of.get("class", "gpu"), "count": count}
            for at, count in enumerate(of["first"])
        ]
        request = {"name": "main", "firstAvailable": alternatives}
    node = of["at"] or "no-such-node" if "at" in of else ""
    owned = {"of": pod, "entry": name} if of.get("of") == "pod" else {}
    held = [f"{node}/one"] if node else []
    users = ["p"] if of.get("users") == ["pod"] else []
    out = dra.resource_claim(name, dra.claim_spec(request), devices=held, node=node, users=users, **owned)
    if of.get("of") == "group":
        owner = {"apiVersion": groups.V1ALPHA2, "kind": "PodGroup", "name": "team", "uid": "uid-team"}
        out["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    if of.get("users") == ["group"]:
        consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "team", "uid": "uid-team"}
        out["status"]["reservedFor"] = [consumer]
    if of.get("deleted"):
        out["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for result in out["status"].get("allocation", {}).get("devices", {}).get("results", ()):
        result.update(({"adminAccess": True} if of.get("admin") else {}) | (CONDITIONS if "binding" in of else {}))
        place = {key: result[key] for key in ("driver", "pool", "device")}
        state = {"type": "broken" if of.get("binding") == "failed" else "attached", "status": "True"}
        out["status"]["devices"] = [place | {"conditions": [state]}] if "binding" in of else []
    return out


def objects(case: Json) -> list[Json]:
    wanted, of_class = case.get("pod", {}), case.get("class", {})
    entries = {"claims": {name: name for name in wanted.get("claims", ())}}
    entries["templates"] = {name: "template" for name in (*wanted.get("made", ()), *wanted.get("templates", ()))}
    amounts = {EXTENDED: str(wanted["extended"])} if "extended" in wanted else {}
    amounts |= {"deviceclass.resource.kubernetes.io/gpu": str(wanted["implicit"])} if "implicit" in wanted else {}
    made = {name: name for name in wanted.get("made", ())}
    pod = dra.claiming_pod("p", **entries, made=made, requests=amounts, limits=amounts)
    if "group" in wanted:
        pod["spec"]["schedulingGroup"] = {"podGroupName": wanted["group"]}
    selectors = [one["cel"]["expression"] for one in reading(of_class["reads"])] if "reads" in of_class else []
    found = [pod, dra.device_class("gpu", *selectors, extended=EXTENDED if of_class.get("extended") else "")]
    nodes = case.get("nodes", {"worker": []})
    for name, devices in nodes.items():
        is_amount = isinstance(devices, int)
        found.append(k8s.node(name, extra={EXTENDED: str(devices)} if is_amount else {}))
        found += [] if is_amount else [dra.resource_slice(f"{name}-s", [*map(device, devices)], node=name)]
    if "group" in wanted:
        shared = [{"name": name, "resourceClaimName": name} for name in wanted.get("claims", ())]
        shared += [{"name": name, "resourceClaimTemplateName": "template"} for name in made]
        found.append(groups.pod_group("team", 1, resourceClaims=shared))
    return [*found, *(claim(name, of, pod) for name, of in case.get("claims", {}).items())]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_fit_says_what_the_plugin_says(case: Json) -> None:
    message = k8s.snapshot_of(*objects(case))
    message.devices.kubernetes_minor = 36
    message.devices.feature_gates.extend(case.get("gates", ()))
    sent = canonicalize(message)
    snapshot = planned_snapshot(sent, is_together=False).snapshot
    (answer,) = check_fit(snapshot, plan_pb2.PlanRequest(fit_pods=["default/p"]), Work(), sent)
    found = {one.node: [PredicateReason.Code.Name(reason) for reason in one.reasons] for one in answer.nodes}
    expected = case["expected"] | case.get("differs", {})
    assert found == {node: [reason] if reason else [] for node, reason in expected.items()}
