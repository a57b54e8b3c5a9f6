"""The load balancer's files match what our clients send and what the chart names."""

from pathlib import Path
from typing import Any

import yaml

from tests.builders.manifests import installed_objects
from trimtab.clients.cli.certificates.authority import PARTS
from trimtab.common.rpc.callers import CLUSTER_KEY, SESSION_KEY
from trimtab.planner.process import SERVICE
from trimtab.planner.service.settings import PlannerOptions

DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = DEPLOY / "scale-out"
BALANCER = next(part for part in PARTS if part.name == "balancer")
PLANNER = next(part for part in PARTS if part.name == "planner")
ENVOY = yaml.safe_load((FILES / "envoy.yaml").read_text())["static_resources"]
OBJECTS = {
    (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all((FILES / "balancer.yaml").read_text())
}


def connection_manager() -> Any:
    (listener,) = ENVOY["listeners"]
    (chain,) = listener["filter_chains"]
    (found,) = chain["filters"]
    return found["typed_config"]


def test_calls_of_the_planner_are_hashed_by_the_headers_that_clients_send_the_cluster_first() -> None:
    (host,) = connection_manager()["route_config"]["virtual_hosts"]
    (plans,) = [one for one in host["routes"] if one["match"]["prefix"] == f"/{SERVICE}/"]
    assert plans["route"]["hash_policy"] == [
        {"header": {"header_name": CLUSTER_KEY}, "terminal": True},
        {"header": {"header_name": SESSION_KEY}},
    ]
    (cluster,) = ENVOY["clusters"]
    assert (cluster["name"], cluster["lb_policy"]) == (plans["route"]["cluster"], "RING_HASH")


def test_no_call_is_ended_before_the_planner_ends_it() -> None:
    idle = connection_manager()["stream_idle_timeout"]
    assert float(idle.removesuffix("s")) > PlannerOptions().longest_call_s
    (host,) = connection_manager()["route_config"]["virtual_hosts"]
    assert host["routes"][0]["route"]["timeout"] == "0s"


def test_each_ready_planner_has_its_own_address_and_a_health_check() -> None:
    (cluster,) = ENVOY["clusters"]
    (locality,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = locality["lb_endpoints"]
    to = endpoint["endpoint"]["address"]["socket_address"]
    service = OBJECTS["Service", to["address"]]["spec"]
    planner = installed_objects()["Service", PLANNER.service]["spec"]
    assert service["clusterIP"] == "None"
    assert service["selector"] == planner["selector"]
    assert to["port_value"] in {port["port"] for port in planner["ports"]}
    assert [one["grpc_health_check"]["service_name"] for one in cluster["health_checks"]] == [SERVICE]


def test_both_sides_speak_tls_1_3_with_certificates_that_trimtab_makes() -> None:
    (listener,) = ENVOY["listeners"]
    (cluster,) = ENVOY["clusters"]
    down = listener["filter_chains"][0]["transport_socket"]["typed_config"]
    up = cluster["transport_socket"]["typed_config"]
    for side in (down, up):
        context = side["common_tls_context"]
        assert set(context["tls_params"].values()) == {"TLSv1_3"}
        assert [one["name"] for one in context["tls_certificate_sds_secret_configs"]] == ["certificate"]
    assert down["require_client_certificate"]
    (name,) = up["common_tls_context"]["combined_validation_context"]["default_validation_context"][
        "match_typed_subject_alt_names"
    ]
    assert name["matcher"]["exact"] == up["sni"] == PLANNER.service
    assert up["sni"] in PLANNER.hosts("trimtab")
    pod = OBJECTS["Deployment", BALANCER.service]["spec"]["template"]["spec"]
    (tls,) = [one["secret"]["secretName"] for one in pod["volumes"] if one["name"] == "tls"]
    assert tls == f"trimtab-{BALANCER.name}-tls"
    assert {"/tls", "/etc/envoy"} == {one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    (certificate,) = yaml.safe_load((FILES / "certificate.yaml").read_text())["resources"]
    assert certificate["tls_certificate"]["certificate_chain"] == {"filename": "/tls/tls.crt"}
    assert certificate["tls_certificate"]["private_key"] == {"filename": "/tls/tls.key"}
    (ca,) = yaml.safe_load((FILES / "ca.yaml").read_text())["resources"]
    assert ca["validation_context"]["trusted_ca"] == {"filename": "/tls/ca.crt"}


def test_the_balancer_reaches_planners_alone_and_all_its_files_are_mounted() -> None:
    labels = {"matchLabels": OBJECTS["Deployment", BALANCER.service]["spec"]["template"]["metadata"]["labels"]}
    let_in = OBJECTS["NetworkPolicy", "trimtab-planner-from-balancer"]["spec"]
    template = installed_objects()["Deployment", PLANNER.service]["spec"]["template"]
    planners = {"matchLabels": template["metadata"]["labels"]}
    assert let_in["podSelector"] == planners
    assert [rule["from"] for rule in let_in["ingress"]] == [[{"podSelector": labels}]]
    own = OBJECTS["NetworkPolicy", BALANCER.service]["spec"]
    assert own["podSelector"] == labels
    assert [rule["to"] for rule in own["egress"] if "to" in rule] == [[{"podSelector": planners}]]
    kustomization = yaml.safe_load((FILES / "kustomization.yaml").read_text())
    (files,) = kustomization["configMapGenerator"]
    assert files["name"] == BALANCER.service
    others = {"kustomization.yaml", "service-affinity.yaml", *kustomization["resources"]}
    assert {path.name for path in FILES.iterdir()} == {*files["files"], *others}


def test_without_a_balancer_the_planners_service_keeps_callers_at_their_planner() -> None:
    patch = yaml.safe_load((FILES / "service-affinity.yaml").read_text())
    assert patch["spec"]["sessionAffinity"] == "ClientIP"
    command = f"kubectl -n trimtab patch service {PLANNER.service} --patch-file deploy/scale-out/service-affinity.yaml"
    assert command in (DEPLOY.parent / "docs" / "operate.md").read_text()
