"""Cases of the scheduler's own tables for its plugin: `fit` says of each node what the plugin's Filter says, or that
the pod waits where PreEnqueue or PreFilter ends the attempt. Each case that is not restated has its reason.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as groups
from trimtab.common.kubernetes.quantities import NANO
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.device_amounts.cluster_allocator import ClusterAllocator
from trimtab.planner.device_amounts.cluster_devices import allocated_devices
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.devices.model import AllocatedState, DevicesAllocated, PoolId, PoolUse
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import PredicateReason

Json = dict[str, Any]
TABLES: Json = yaml.safe_load((Path(__file__).parent / "data/devices/plugin.yaml").read_text())
CASES: list[Json] = TABLES["fits"]
EXTENDED, SECOND, IMPLICIT = "example.com/gpu", "example.com/gpu2", "deviceclass.resource.kubernetes.io/gpu"
RESOURCES = {"extended": EXTENDED, "second": SECOND, "implicit": IMPLICIT}
CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
STATES = {
    "succeeded": [{"type": "attached", "status": "True"}],
    "failed": [{"type": "broken", "status": "True"}],
    "late": [],
    "mixed": [{"type": "attached", "status": "False"}, {"type": "other", "status": "True"}],
}


def ids(cases: list[Json]) -> list[str]:
    return [case["name"] for case in cases]


def device(name: str) -> Json:
    """Return a device; names say what is special about it."""
    if name in ("healthy", "unhealthy"):
        return dra.device(name, attributes={"healthy": name == "healthy"})
    more: Json = {"taints": [{"key": "broken", "effect": "NoSchedule"}]} if name == "tainted" else {}
    return dra.device(name, **(more | (CONDITIONS if name == "bound" else {})))


def reading(attribute: str) -> list[Json]:
    return [{"cel": {"expression": f'device.attributes["{dra.DRIVER}"].{attribute}'}}]


def requests(of: Json) -> list[Json]:
    """Return the requests of a claim."""
    of_class = of.get("class", "gpu")
    if "first" not in of:
        more = {"selectors": reading(of["reads"])} if "reads" in of else {}
        more |= {"adminAccess": True} if of.get("admin") else {}
        return [dra.request(of_class=of_class, **more)]
    found = []
    for place, counts in enumerate(of["first"]):
        alternatives = [
            {"name": f"sub-{at}", "deviceClassName": of_class}
            | ({"selectors": reading(one)} if isinstance(one, str) else {"count": one})
            for at, one in enumerate(counts)
        ]
        found.append({"name": f"more-{place}" if place else "main", "firstAvailable": alternatives})
    return found


def claim(name: str, of: Json, pod: Json) -> Json:
    """Return a claim, with the first device of a node if it has one."""
    node = of["at"] or "no-such-node" if "at" in of else ""
    owned = {"of": pod, "entry": "" if of.get("left") else name} if of.get("of") == "pod" else {}
    held = [f"{node}/one"] if node else []
    users = ["p"] if of.get("users") == ["pod"] else []
    out = dra.resource_claim(name, dra.claim_spec(*requests(of)), devices=held, node=node, users=users, **owned)
    meta = out["metadata"]
    if of.get("of") == "group":
        owner = {"apiVersion": groups.V1ALPHA2, "kind": "PodGroup", "name": "team", "uid": "uid-team"}
        meta["ownerReferences"] = [{**owner, "controller": True}]
    if of.get("users") == ["group"]:
        consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "team", "uid": "uid-team"}
        out["status"]["reservedFor"] = [consumer]
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if of.get("deleted") else {}
    meta |= {"finalizers": ["resource.kubernetes.io/delete-protection"]} if of.get("finalizer") else {}
    meta |= {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}} if of.get("left") else {}
    if "binding" in of:
        out["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    for result in out["status"].get("allocation", {}).get("devices", {}).get("results", ()):
        result.update(({"adminAccess": True} if of.get("admin") else {}) | (CONDITIONS if "binding" in of else {}))
        place = {key: result[key] for key in ("driver", "pool", "device")}
        out["status"]["devices"] = [place | {"conditions": STATES[of["binding"]]}] if "binding" in of else []
    return out


def asking(asks: list[Json]) -> list[Json]:
    """Return containers that ask for extended resources."""
    amounts = [{RESOURCES[name]: str(count) for name, count in one.items()} for one in asks]
    return [{"name": f"c{at}", "resources": {"requests": one, "limits": one}} for at, one in enumerate(amounts)]


def objects(case: Json) -> list[Json]:
    wanted, of_class = case.get("pod", {}), case.get("class", {})
    entries = {"claims": {name: name for name in wanted.get("claims", ())}}
    entries["templates"] = {name: "template" for name in (*wanted.get("made", ()), *wanted.get("templates", ()))}
    made = {name: name for name in wanted.get("made", ())}
    more = {"containers": asking(wanted["asks"])} if "asks" in wanted else {}
    pod = dra.claiming_pod("p", **entries, made=made, **more)
    selectors = [one["cel"]["expression"] for one in reading(of_class["reads"])] if "reads" in of_class else []
    found = [pod, dra.device_class("gpu", *selectors, extended=EXTENDED if of_class.get("extended") else "")]
    found += [dra.device_class("gpu2", extended=SECOND)] if of_class.get("second") else []
    for name, devices in case.get("nodes", {"worker": []}).items():
        found.append(k8s.node(name, extra={EXTENDED: str(case["offers"][name])} if "offers" in case else {}))
        found.append(dra.resource_slice(f"{name}-s", [*map(device, devices)], node=name))
    if "group" in wanted:
        pod["spec"]["schedulingGroup"] = {"podGroupName": wanted["group"]}
        shared = [{"name": name, "resourceClaimName": name} for name in wanted.get("claims", ())]
        shared += [{"name": name, "resourceClaimTemplateName": "template"} for name in made]
        found.append(groups.pod_group("team", 1, resourceClaims=shared))
    if "running" in case:
        other = dra.claiming_pod("q", **entries, node=case["running"])
        other["spec"]["schedulingGroup"] = {"podGroupName": wanted["group"]}
        found.append(other)
    return [*found, *(claim(name, of, pod) for name, of in case.get("claims", {}).items())]


def sent_by(case: Json) -> Snapshot:
    message = k8s.snapshot_of(*objects(case))
    message.devices.kubernetes_minor = 36
    message.devices.feature_gates.extend(case.get("gates", ()))
    return canonicalize(message)


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_fit_says_what_the_plugin_says(case: Json) -> None:
    sent = sent_by(case)
    snapshot = planned_snapshot(sent, is_together=False).snapshot
    (answer,) = check_fit(snapshot, plan_pb2.PlanRequest(fit_pods=["default/p"]), Work(), sent)
    found = {one.node: [PredicateReason.Code.Name(reason) for reason in one.reasons] for one in answer.nodes}
    expected = case["expected"] | case.get("differs", {})
    assert found == {node: [reason] if reason else [] for node, reason in expected.items()}
    if "waits" in case:
        assert any(one.problem for spec in snapshot.specs for one in spec.claims)  # so no plan places the pod


@pytest.mark.parametrize("case", [case for case in CASES if "gets" in case], ids=lambda case: case["name"])
def test_claims_get_devices_for_the_requests_that_the_plugin_serves(case: Json) -> None:
    sent = sent_by(case)
    pod = next(at for at in range(len(sent.pods.spec)) if sent.pods.name.get(at) == "p")
    (outcome,) = ClusterAllocator(sent).outcomes(pod, [sent.nodes.name.index("worker")]).values()
    assert isinstance(outcome, DevicesAllocated)
    found = {one.claim: [device.request for device in one.devices] for one in outcome.claims}
    assert found == case["gets"]


@pytest.mark.parametrize("case", TABLES["in_use"], ids=ids(TABLES["in_use"]))
def test_devices_are_in_use_as_the_plugin_counts_them(case: Json) -> None:
    claims = []
    for at, held in enumerate(case["held"]):
        one = dra.resource_claim(f"c{at}", devices=[f"worker/{held.partition(' ')[0]}"], node="worker")
        (result,) = one["status"]["allocation"]["devices"]["results"]
        result |= {"shareID": f"share-{at}"} if held != "one" else {}
        result |= {"consumedCapacity": {"memory": held.removeprefix("share of ")}} if " of " in held else {}
        claims.append(one)
    message = k8s.snapshot_of(k8s.node("worker"), dra.device_class(), *claims)
    message.devices.kubernetes_minor = 36
    message.devices.feature_gates.extend(case.get("gates", ()))
    state = AllocatedState()
    state.add(tuple([one for _, one in allocated_devices(canonicalize(message).devices)]))
    use = state.pools.get(PoolId(dra.DRIVER, "worker"), PoolUse())
    assert (sum(use.exclusive.values()), sum(use.shares.values())) == (case["exclusive"], case["shares"])
    assert use.consumed.get("share", {}) == ({"memory": case["consumed"] * NANO} if "consumed" in case else {})


@pytest.mark.parametrize("case", TABLES["extended"], ids=[f"{one['of']}: {one['name']}" for one in TABLES["extended"]])
def test_extended_resources_become_the_requests_that_the_plugin_makes(case: Json) -> None:
    def containers(key: str) -> list[Json]:
        found = []
        for at, one in enumerate(case.get(key, ())):
            asked = {k: v for k, v in one.items() if k != "sidecar"}
            amounts = {_resource(name): str(count) for name, count in asked.items()}
            more = {"restartPolicy": "Always"} if one.get("sidecar") else {}
            found.append({"name": f"{key}-{at}", "resources": {"requests": amounts, "limits": amounts}, **more})
        return found

    classes = [dra.device_class(name, extended=_resource(name)) for name in case["provided"]]
    pod = k8s.pod(containers=containers("containers"), init_containers=containers("init"))
    (row,) = k8s.snapshot_of(pod, *classes).pod_specs
    found = {one.name: (one.resource, one.count) for one in row.extended_device_requests}
    assert found == {name: (_resource(of), count) for name, (of, count) in case["requests"].items()}


def _resource(name: str) -> str:
    """Return the extended resource for which a name stands."""
    return "deviceclass.resource.kubernetes.io/init" if name == "implicit" else f"example.com/{name}"


def test_each_case_of_the_tables_is_restated_or_left_out_with_a_reason() -> None:
    restated: dict[str, list[str]] = {table: [] for table in TABLES["counts"]}
    for case in CASES:
        restated[case.get("of", "TestPlugin")].append(case["name"])
    restated["TestGatherAllocatedState"] += ids(TABLES["in_use"])
    for case in TABLES["extended"]:
        restated[f"Test_createRequestsAndMappings_{case['of']}"].append(case["name"])
    left_out = TABLES["left_out"]
    assert all(all(reasons.values()) for reasons in left_out.values())
    named = {table: [*names, *left_out.get(table, ())] for table, names in restated.items()}
    assert all(len(names) == len(set(names)) for names in named.values())
    assert {table: len(names) for table, names in named.items()} == TABLES["counts"]
    assert sum(TABLES["counts"][table] for table in named if "Mappings" not in table) == 126
    assert sum(map(len, restated.values())) == 84
