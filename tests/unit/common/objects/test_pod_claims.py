"""What a pod claims: by claim and by template, made or not yet; extended resources that classes provide."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders.capacity_buffers import buffer, template
from tests.unit.common.objects.reading import build, column
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
ONE = {
    "requests": [{"name": "main", "alternatives": [{"deviceClass": "gpu", "mode": "EXACT_COUNT", "count": "1"}]}]
}  # fmt: skip
TEMPLATE = dra.claim_template("one-gpu")


def claims_of(*objects: Json, pod: int = 0) -> list[Json]:
    """Return the claims of a pod, by its place in the table."""
    snapshot = build(*objects)
    return [MessageToDict(one) for one in snapshot.pod_specs[column(snapshot.pods.spec)[pod]].claims]


def web(**more: Any) -> Json:
    """Return a pod with one claim from a template."""
    return dra.claiming_pod("web", templates={"gpu": "one-gpu"}, **more)


def made_for(pod: Json, **more: Any) -> Json:
    return dra.resource_claim("web-gpu-x", of=pod, entry="gpu", **more)


def test_a_claim_from_a_template_is_the_same_before_and_after_it_is_made() -> None:
    done = web(made={"gpu": "web-gpu-x"})
    assert claims_of(web(), TEMPLATE) == claims_of(done, TEMPLATE, made_for(done)) == [{"name": "gpu", "spec": ONE}]


def test_pods_with_equal_claims_share_a_spec() -> None:
    pods = [dra.claiming_pod(f"p{at}", templates={"gpu": "one-gpu"}, made={"gpu": f"c{at}"}) for at in range(3)]
    claims = [dra.resource_claim(f"c{at}", of=pod, entry="gpu") for at, pod in enumerate(pods)]
    snapshot = build(*pods, *claims, k8s.pod("plain"))
    assert column(snapshot.pods.spec) == [0, 0, 0, 1]
    assert len(snapshot.devices.claim_specs) == 1


def test_a_claim_of_its_own_has_the_content_that_it_was_made_with() -> None:
    done = web(made={"gpu": "web-gpu-x"})
    old = made_for(done, spec=dra.claim_spec(dra.request("main", "older")))
    (claim,) = claims_of(done, TEMPLATE, old)
    assert claim["spec"]["requests"][0]["alternatives"][0]["deviceClass"] == "older"


def test_a_named_claim_is_one_that_pods_may_share() -> None:
    pod = dra.claiming_pod("web", claims={"gpu": "common"})
    assert claims_of(pod, dra.resource_claim("common")) == [{"name": "gpu", "sharedClaim": "common"}]


def test_an_entry_for_which_no_claim_is_needed_is_left_out() -> None:
    assert claims_of(web(made={"gpu": ""}), TEMPLATE) == []


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([web()], "ResourceClaimTemplate default/one-gpu does not exist", id="no template"),
        pytest.param(
            [dra.claiming_pod("web", claims={"gpu": "none"})],
            "ResourceClaim default/none does not exist",
            id="no claim",
        ),
        pytest.param(
            [web(made={"gpu": "gone"}), TEMPLATE],
            "ResourceClaim default/gone does not exist",
            id="a made claim is gone",
        ),
        pytest.param(
            [web(made={"gpu": "web-gpu-x"}), TEMPLATE, made_for(k8s.pod("other"))],
            "ResourceClaim default/web-gpu-x exists, but is not of this pod",
            id="of another pod",
        ),
        pytest.param(
            [
                dra.claiming_pod("web", claims={"gpu": "c"}),
                dra.resource_claim("c", deletionTimestamp="2026-01-01T00:00:00Z"),
            ],
            "ResourceClaim default/c is being deleted",
            id="a claim that goes",
        ),
        pytest.param(
            [dra.claiming_pod("web", claims={"gpu": "c"}), dra.resource_claim("c", dra.claim_spec({"name": "a"}))],
            "ResourceClaim c.spec.devices.requests[0]: neither of",
            id="a broken claim",
        ),
        pytest.param(
            [web(), dra.claim_template("one-gpu", dra.claim_spec(dra.request("main", "")))],
            "spec.resourceClaims, gpu: devices.requests[0].exactly.deviceClassName: it is missing",
            id="a broken template",
        ),
        pytest.param(
            [dra.claiming_pod("web", claims={"gpu": "c"}), {**dra.resource_claim("c"), "spec": None}],
            "ResourceClaim c.spec: it is missing, or cannot be read",
            id="a claim without content",
        ),
        pytest.param(
            [web(), {**TEMPLATE, "spec": {}}],
            "ResourceClaimTemplate default/one-gpu: spec.spec: it is missing, or cannot be read",
            id="a template without content",
        ),
        pytest.param(
            [dra.claiming_pod("web", spec={}, templates={"gpu": ""})],
            "spec.resourceClaims, gpu: it names neither a ResourceClaim nor a ResourceClaimTemplate",
            id="no name",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_says_why(objects: list[Json], expected: str) -> None:
    (claim,) = claims_of(*objects, dra.resource_claim("unrelated"))
    assert claim["problem"].startswith(expected)


def test_an_input_without_claims_names_the_command_that_adds_them() -> None:
    (claim,) = claims_of(dra.claiming_pod("web", claims={"gpu": "c"}))
    assert "add `kubectl get resourceclaims," in claim["problem"]


def group_of(pod: Json, name: str = "team") -> Json:
    pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    return pod


def pod_group(name: str = "team", **spec: Any) -> Json:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


def test_pods_of_a_group_share_the_claim_of_the_group_before_and_after_it_is_made() -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    group = pod_group(resourceClaims=[entry], schedulingPolicy={"gang": {"minCount": 2}})
    assert claims_of(group_of(web()), TEMPLATE, group) == [{"name": "gpu", "sharedClaim": "team/gpu", "spec": ONE}]
    claim = dra.resource_claim("team-gpu-x")
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "team", "uid": "uid-team"}
    claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    made = group_of(web(made={"gpu": "team-gpu-x"}))
    assert claims_of(made, TEMPLATE, group, claim) == [{"name": "gpu", "sharedClaim": "team-gpu-x"}]
    # A pod that has just been created gets the name into its status a moment later.
    group["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "team-gpu-x"}]}
    assert claims_of(group_of(web()), TEMPLATE, group, claim) == [{"name": "gpu", "sharedClaim": "team-gpu-x"}]


def test_placeholders_pods_of_daemon_sets_and_evicted_pods_claim_from_the_template() -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    daemon = k8s.daemon_set(template={"cpu": "1", "spec": spec})
    chunk = template("chunk")
    chunk["template"]["spec"] |= spec
    snapshot = build(daemon, chunk, buffer("spare", podTemplateRef={"name": "chunk"}, replicas=1), dra.claim_template(
        "one-gpu", namespace=daemon["metadata"]["namespace"]
    ), TEMPLATE)  # fmt: skip
    (of_daemon,) = snapshot.pod_specs
    (of_buffer,) = snapshot.slack_requests.dictionary.pod_specs
    for row in (of_daemon, of_buffer):
        assert [MessageToDict(one) for one in row.claims] == [{"name": "gpu", "spec": ONE}]


GPU = "example.com/gpu"


def container(name: str, count: int | str | None, *, sidecar: bool = False, **more: str) -> Json:
    limits = more | ({GPU: str(count)} if count is not None else {})
    return {"name": name, "resources": {"limits": limits}} | ({"restartPolicy": "Always"} if sidecar else {})


def extended(
    *containers: Json, init: list[Json] | None = None, of_class: Json | None = None
) -> list[tuple[str, str, int]]:
    pod = k8s.pod(containers=list(containers), init_containers=init or [])
    snapshot = build(pod, of_class or dra.device_class("gpu", extended=GPU))
    return [(one.name, one.resource, one.count) for one in snapshot.pod_specs[0].extended_device_requests]


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([container("a", 1), container("b", 2)], [], {"0-request-0": 1, "1-request-0": 2}),
        ([container("a", 1, cpu="1", memory="1Gi")], [], {"0-request-1": 1}),  # the place among all names, sorted
        ([container("a", None, cpu="1")], [], {}),
        ([container("a", 0)], [], {}),
        # A short-lived container has what later ones hold, and asks for the rest; the largest rest alone is kept.
        ([container("a", 2)], [container("i", 1)], {"1-request-0": 2}),
        ([container("a", 2)], [container("i", 5), container("j", 4)], {"0-request-0": 3, "2-request-0": 2}),
        # A sidecar lasts, for those after it; what begins before it can reuse it, what comes after cannot.
        ([container("a", 1)], [container("s", 1, sidecar=True), container("i", 3)],
         {"0-request-0": 1, "1-request-0": 2, "2-request-0": 1}),
        ([container("a", 1)], [container("i", 3), container("s", 1, sidecar=True)],
         {"0-request-0": 1, "1-request-0": 1, "2-request-0": 1}),
        # Of short-lived containers alone, the largest is enough for all.
        ([container("a", None)], [container("i", 1), container("j", 4), container("k", 2)], {"1-request-0": 4}),
    ],
)  # fmt: skip
def test_extended_resources_become_requests_as_the_scheduler_makes_them(
    containers: list[Json], init: list[Json], expected: dict[str, int]
) -> None:
    assert extended(*containers, init=init) == [(f"container-{name}", GPU, count) for name, count in expected.items()]


def test_a_container_may_ask_for_resources_of_several_classes() -> None:
    implicit = "deviceclass.resource.kubernetes.io/gpu"
    asked = {"name": "a", "resources": {"limits": {implicit: "1", GPU: "3"}}}
    assert extended(asked) == [("container-0-request-0", implicit, 1), ("container-0-request-1", GPU, 3)]


def test_only_resources_that_a_class_provides_become_requests() -> None:
    implicit = "deviceclass.resource.kubernetes.io/gpu"
    asked = {"name": "a", "resources": {"limits": {implicit: "1", GPU: "1"}}}
    assert extended(asked, of_class=dra.device_class("gpu")) == [("container-0-request-0", implicit, 1)]
    assert extended(asked, of_class=dra.device_class("other")) == []


def test_the_requests_remain_in_place_for_nodes_that_have_the_resource() -> None:
    snapshot = build(k8s.pod(limits={GPU: "2"}), dra.device_class("gpu", extended=GPU))
    (row,) = snapshot.pod_specs
    assert {snapshot.resources[one.resource]: one.amount for one in row.requests}[GPU] == 2
    assert isinstance(row, pb.PodSpec)
