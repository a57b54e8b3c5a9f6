"""The manifests say what the code needs: rights, options, files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from actuator.cloud.kwok.groups import read_group
from actuator.cloud.kwok.ledger import NAME
from actuator.kube.permissions import ACTUATOR, BUFFERS, POD_COSTS, kwok_rules
from clients.cli.certificates.parts import PARTS
from clients.cli.documents import read_settings
from clients.kubernetes_api.permissions import lease_rules, own_object
from clients.kubernetes_api.rules import Rule
from clients.live_cluster.resources import RESOURCES
from clients.transport.access_policy import Right, read_policy

MANIFESTS = Path(__file__).parents[3] / "deploy" / "manifests"
NAMESPACE = "trimtab"


def objects() -> dict[tuple[str, str], Any]:
    """All objects, by kind and name."""
    names = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    found = [item for name in names for item in yaml.safe_load_all((MANIFESTS / name).read_text())]
    assert len({(item["kind"], item["metadata"]["name"]) for item in found}) == len(found), "an object is given twice"
    return {(item["kind"], item["metadata"]["name"]): item for item in found}


def granted(*roles: tuple[str, str]) -> set[tuple[str, str, str, str, str]]:
    """Group, resource, verb, namespace and name ("" = all) of everything that the roles grant."""
    found = objects()
    return {
        (group, resource, verb, NAMESPACE if kind == "Role" else "", object_name)
        for kind, name in roles
        for rule in found[kind, name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for object_name in rule.get("resourceNames", [""])
    }


def asked(rules: Iterable[Rule]) -> set[tuple[str, str, str, str, str]]:
    return {(rule.group, rule.resource, verb, rule.namespace, rule.name) for rule in rules for verb in rule.verbs}


def test_the_actuator_is_granted_exactly_what_it_asks_for() -> None:
    roles = [("ClusterRole", "trimtab-actuator"), ("Role", "trimtab-actuator")]
    assert granted(*roles) == asked([*ACTUATOR, *lease_rules(NAMESPACE, "trimtab-actuator")])
    assert granted(("ClusterRole", "trimtab-actuator-pod-costs")) == asked(POD_COSTS)
    assert granted(("ClusterRole", "trimtab-actuator-capacity-buffers")) == asked(BUFFERS)


def test_the_cloud_kwok_is_granted_exactly_what_it_asks_for() -> None:
    roles = [("ClusterRole", "trimtab-actuator-kwok"), ("Role", "trimtab-actuator-kwok")]
    assert granted(*roles) == asked(kwok_rules(NAMESPACE, NAME))


def test_the_loop_may_watch_all_that_a_snapshot_is_made_of_and_write_what_it_reports() -> None:
    watched = {(one.group, one.plural, verb, "", "") for one in RESOURCES for verb in ("list", "watch")}
    leases = asked(lease_rules(NAMESPACE, "trimtab-loop"))
    state = asked(own_object("", "configmaps", ("get", "patch"), NAMESPACE, "trimtab-state"))
    status = asked(own_object("", "configmaps", ("patch",), NAMESPACE, "trimtab-status"))
    own = state | status | {("", "events", "create", "", "")}
    assert granted(("ClusterRole", "trimtab-loop"), ("Role", "trimtab-loop")) == watched | leases | own


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_every_role_is_bound_to_an_account_that_exists(kind: str) -> None:
    found = objects()
    for role in (name for one, name in found if one == kind):
        binding = found[f"{kind}Binding", role]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, role)
        for subject in binding["subjects"]:
            assert ("ServiceAccount", subject["name"]) in found


@pytest.mark.parametrize(
    ("kind", "name", "command"),
    [
        pytest.param("Deployment", "trimtab-planner", "planner", id="planner"),
        pytest.param("StatefulSet", "trimtab-actuator", "actuator", id="actuator"),
        pytest.param("Deployment", "trimtab-loop", "run", id="loop"),
    ],
)
def test_every_option_in_the_manifests_exists(kind: str, name: str, command: str) -> None:
    (container,) = objects()[kind, name]["spec"]["template"]["spec"]["containers"]
    options = {argument.split("=")[0] for argument in container["args"] if argument.startswith("--")}
    assert options
    assert options <= known_options(command)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Deployment", "trimtab-planner"), ("StatefulSet", "trimtab-actuator"), ("Deployment", "trimtab-loop")],
)
def test_every_port_on_the_network_has_the_certificate_that_is_made_for_its_part(kind: str, name: str) -> None:
    pod = objects()[kind, name]["spec"]["template"]["spec"]
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


def test_the_policy_lets_the_loop_do_its_work_and_a_person_only_look(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(objects()["ConfigMap", "trimtab-policy"]["data"]["policy.yaml"])
    policy = read_policy(tmp_path / "policy.yaml")
    identities = {part.name: (part.identity,) for part in PARTS}
    assert policy.rights(identities["loop"]) == set(Right) - {Right.CHOOSE}
    assert policy.may_plan(identities["loop"], "")
    assert policy.rights(identities["operator"]) == {Right.PLAN, Right.READ}
    others = identities.keys() - {"loop", "operator"}
    assert [name for name in others if policy.rights(identities[name])] == []
    assert policy.deletions.require_assumption
    assert policy.deletions.max_nodes_per_hour


def known_options(command: str) -> set[str]:
    """The options of one of our commands."""
    import typer

    from actuator.service.command import app as actuator
    from clients.cli.commands import app as cli
    from planner.service.command import app as planner

    found: Any = typer.main.get_command({"actuator": actuator, "planner": planner}.get(command, cli))
    if command == "run":
        found = found.get_command(found.make_context("trimtab", ["run"], resilient_parsing=True), "run")
    return {name for parameter in found.params for name in parameter.opts}


def test_the_settings_can_be_read_by_those_who_read_them(tmp_path: Path) -> None:
    data = objects()["ConfigMap", "trimtab-settings"]["data"]
    group = read_group(yaml.safe_load(data["groups.yaml"]))
    assert (group.min_size, group.max_size) == (0, 100)
    (tmp_path / "settings.yaml").write_text(data["settings.yaml"])
    assert read_settings(tmp_path / "settings.yaml").scale_down.max_drain_parallelism == 10
