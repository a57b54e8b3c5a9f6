"""What the chart installs matches the code's needs: rights, options, files."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.manifests import installed_objects, known_options
from trimtab.actuator.cloud.kwok.groups import read_group
from trimtab.actuator.cloud.kwok.ledger import NAME as LEDGER
from trimtab.actuator.cloud.table import CLOUDS
from trimtab.clients.cli.certificates.authority import PARTS
from trimtab.clients.cli.documents import read_settings
from trimtab.common.kubernetes.registry import PermissionRule, User, rules_of
from trimtab.common.rpc.access_policy import AccessPolicy, Right, read_policy

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "chart"
NAMESPACE = "trimtab"


def granted(*roles: tuple[str, str]) -> set[tuple[str, str, str, str, str]]:
    """Return group, resource, verb, namespace and name ("" = all) of all granted rights."""
    found = installed_objects()
    return {
        (group, resource, verb, NAMESPACE if kind == "Role" else "", object_name)
        for kind, name in roles
        for rule in found[kind, name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for object_name in rule.get("resourceNames", [""])
    }


def asked(rules: Iterable[PermissionRule]) -> set[tuple[str, str, str, str, str]]:
    return {(rule.group, rule.resource, verb, rule.namespace, rule.name) for rule in rules for verb in rule.verbs}


def test_the_actuator_is_granted_exactly_what_it_asks_for() -> None:
    roles = [("ClusterRole", "trimtab-actuator"), ("Role", "trimtab-actuator")]
    assert granted(*roles) == asked([*rules_of(User.ACTUATOR), *rules_of(User.LEADER, NAMESPACE, "trimtab-actuator")])
    assert granted(("ClusterRole", "trimtab-actuator-pod-costs")) == asked(rules_of(User.POD_COSTS))
    assert granted(("ClusterRole", "trimtab-actuator-capacity-buffers")) == asked(rules_of(User.BUFFERS))
    assert granted(("ClusterRole", "trimtab-actuator-capacity-requests")) == asked(rules_of(User.CAPACITY))


def test_the_cloud_kwok_is_granted_exactly_what_it_asks_for() -> None:
    roles = [("ClusterRole", "trimtab-actuator-kwok"), ("Role", "trimtab-actuator-kwok")]
    assert granted(*roles) == asked(rules_of(User.KWOK, NAMESPACE, LEDGER))


def test_the_loop_may_watch_all_that_a_snapshot_is_made_of_and_write_what_it_reports() -> None:
    own = [
        *rules_of(User.LEADER, NAMESPACE, "trimtab-loop"),
        *rules_of(User.STATE, NAMESPACE, "trimtab-state"),
        *rules_of(User.STATUS, NAMESPACE, "trimtab-status"),
        *rules_of(User.EVENTS),
    ]
    assert granted(("ClusterRole", "trimtab-reader")) == asked(rules_of(User.SNAPSHOTS))
    assert granted(("ClusterRole", "trimtab-loop"), ("Role", "trimtab-loop")) == asked(own)


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_every_role_is_bound_to_an_account_that_exists(kind: str) -> None:
    found = installed_objects()
    bindings = [item for (one, _), item in found.items() if one == f"{kind}Binding"]
    assert {item["roleRef"]["name"] for item in bindings} == {name for one, name in found if one == kind}
    for item in bindings:
        assert item["roleRef"]["kind"] == kind
        for subject in item["subjects"]:
            assert ("ServiceAccount", subject["name"]) in found


@pytest.mark.parametrize(
    ("kind", "name", "command"),
    [
        pytest.param("Deployment", "trimtab-planner", "planner", id="planner"),
        pytest.param("StatefulSet", "trimtab-actuator", "actuator", id="actuator"),
        pytest.param("Deployment", "trimtab-loop", "run", id="loop"),
    ],
)
def test_every_option_of_a_container_exists(kind: str, name: str, command: str) -> None:
    (container,) = installed_objects()[kind, name]["spec"]["template"]["spec"]["containers"]
    options = {argument.split("=")[0] for argument in container["args"] if argument.startswith("--")}
    assert options
    assert options <= known_options(command)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Deployment", "trimtab-planner"), ("StatefulSet", "trimtab-actuator"), ("Deployment", "trimtab-loop")],
)
def test_every_port_on_the_network_has_the_certificate_that_is_made_for_its_part(kind: str, name: str) -> None:
    pod = installed_objects()[kind, name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    part = next(one for one in PARTS if one.service == name)
    settings = {*container["args"], *(f"{one['name']}={one['value']}" for one in container.get("env", []))}
    assert not any("allow-plaintext" in one or "allow-anonymous" in one for one in settings)
    for file in ("/tls/tls.crt", "/tls/tls.key", "/tls/ca.crt"):
        assert any(one.endswith("=" + file) for one in settings)
    (volume,) = [one for one in pod["volumes"] if one["name"] == "tls"]
    assert volume["secret"]["secretName"] == f"trimtab-{part.name}-tls"
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in container["volumeMounts"]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"


def test_the_policy_allows_the_loop_its_work_and_a_person_only_to_read(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(installed_objects()["ConfigMap", "trimtab-policy"]["data"]["policy.yaml"])
    policy = read_policy(tmp_path / "policy.yaml")
    identities = {part.name: (part.identity,) for part in PARTS}
    assert policy.rights(identities["loop"]) == set(Right) - {Right.CHOOSE}
    assert policy.may_plan(identities["loop"], "")
    assert policy.rights(identities["operator"]) == {Right.PLAN, Right.READ}
    others = identities.keys() - {"loop", "operator"}
    assert [name for name in others if policy.rights(identities[name])] == []
    assert policy.deletions.require_assumption
    assert policy.deletions.max_nodes_per_hour


def test_the_settings_can_be_read_by_those_who_read_them(tmp_path: Path) -> None:
    data = installed_objects()["ConfigMap", "trimtab-settings"]["data"]
    group = read_group(yaml.safe_load(data["groups.yaml"]))
    assert (group.min_size, group.max_size) == (0, 100)
    (tmp_path / "settings.yaml").write_text(data["settings.yaml"])
    assert read_settings(tmp_path / "settings.yaml").scale_down.max_drain_parallelism == 10


WORKLOADS = [
    pytest.param("Deployment", "trimtab-planner", id="planner"),
    pytest.param("StatefulSet", "trimtab-actuator", id="actuator"),
    pytest.param("Deployment", "trimtab-loop", id="loop"),
]


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_every_container_is_confined_and_has_its_memory_limited(kind: str, name: str) -> None:
    pod = installed_objects()[kind, name]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert {"cpu", "memory"} == container["resources"]["requests"].keys()
    assert {"readinessProbe", "livenessProbe"} <= pod["containers"][0].keys()


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
def test_pods_have_a_budget_a_network_policy_and_an_account_of_their_own(kind: str, name: str) -> None:
    found = installed_objects()
    template = found[kind, name]["spec"]["template"]
    labels = {"matchLabels": template["metadata"]["labels"]}
    assert found["PodDisruptionBudget", name]["spec"]["selector"] == labels
    policy = found["NetworkPolicy", name]["spec"]
    assert policy["podSelector"] == labels
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert template["spec"]["serviceAccountName"] == name
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} <= ports


def test_the_loop_reaches_both_services_and_no_service_reaches_the_loop() -> None:
    found = installed_objects()
    loop = found["NetworkPolicy", "trimtab-loop"]["spec"]
    assert loop["ingress"] == []
    for name in ("trimtab-planner", "trimtab-actuator"):
        rules = found["NetworkPolicy", name]["spec"]["ingress"]
        (callers,) = [rule["from"] for rule in rules if rule["ports"] == [{"port": "grpc"}]]
        assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "trimtab-loop"}}} in callers
        peer = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": name}}}
        assert any(peer in rule.get("to", ()) and {"port": 9000} in rule["ports"] for rule in loop["egress"])


def test_the_values_of_the_chart_are_all_described_and_the_policy_is_described_as_it_is_read() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def described(value: Any, part: dict[str, Any], place: str) -> None:
        if not isinstance(value, dict) or "properties" not in part:
            return
        assert part["additionalProperties"] is False, place
        assert value.keys() <= part["properties"].keys(), place
        for key, inner in value.items():
            described(inner, part["properties"][key], f"{place}.{key}")

    described(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "values")
    policy = AccessPolicy.model_json_schema(by_alias=True)["$defs"]
    assert {name: schema["$defs"].get(name) for name in policy} == policy


def test_the_chart_takes_every_cloud_but_the_one_in_memory() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = [cloud.name for cloud in CLOUDS if cloud.name != "memory"]
    # The empty name, of the default, is refused by a template, which says what to do.
    assert schema["properties"]["actuator"]["properties"]["cloud"]["enum"] == ["", *names]
    message = next(
        line for line in (CHART / "templates" / "_shared.tpl").read_text().splitlines() if "is required" in line
    )
    assert all(name in message for name in names)


def test_the_chart_has_the_version_of_the_package() -> None:
    package = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (package, package)
    images = [
        container["image"]
        for (kind, _), item in installed_objects().items()
        if kind in {"Deployment", "StatefulSet"}
        for container in item["spec"]["template"]["spec"]["containers"]
    ]
    assert set(images) == {f"trimtab:{package}"}
