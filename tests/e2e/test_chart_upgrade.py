"""Upgrades of the Helm chart from earlier ones, which `tests/e2e/charts` has as packages: 0.1.0 as it first was, before
the cloud had to be named. No field changes that Kubernetes does not let change; a real helm upgrades a release on a
real API server, keeps every object and its data, and goes back.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.actuator_process import until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.helm.binary import CHART, KWOK, HelmError, Json, flags, helm

pytestmark = pytest.mark.e2e

EARLIER = sorted((Path(__file__).parent / "charts").glob("*.tgz"))
SLOW_S = 120.0
CHANGEABLE = {
    "replicas", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds", "ordinals",
    "revisionHistoryLimit",
}  # fmt: skip
"""All that Kubernetes lets change in the spec of a StatefulSet."""


def immutable(item: Json) -> Any:
    """What Kubernetes does not let change in an object, or lets change only by a migration."""
    spec = item.get("spec", {})
    match item["kind"]:
        case "StatefulSet":
            return {key: value for key, value in spec.items() if key not in CHANGEABLE}
        case "Deployment":
            return spec["selector"]
        case "Service":
            return [spec.get("clusterIP"), spec.get("type")]
        case "RoleBinding" | "ClusterRoleBinding":
            return item["roleRef"]
        case "CustomResourceDefinition":
            stored = [version["name"] for version in spec["versions"] if version["storage"]]
            return [spec["group"], spec["names"], spec["scope"], stored]
        case _:
            return None


def objects_of(chart: Path, *options: object) -> dict[tuple[str, str], Json]:
    found = yaml.safe_load_all(helm("template", "trimtab", chart, "--namespace", "trimtab", "--values", KWOK, *options))
    return {(item["kind"], item["metadata"]["name"]): item for item in found if item}


def test_a_package_of_an_earlier_chart_is_there() -> None:
    assert "trimtab-0.1.0.tgz" in {path.name for path in EARLIER}


@pytest.mark.parametrize("earlier", [pytest.param(path, id=path.stem) for path in EARLIER])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([], id="a test cluster"),
        pytest.param(['actuator.cloud="aws"', "nodeGroups=[]", 'actuator.store.storageClassName="fast"'], id="a cloud"),
        pytest.param(["actuator.replicas=2", 'actuator.store.urlSecret="store"'], id="a store that replicas share"),
        pytest.param(["planner.expander.enabled=true", 'access.tokenAudience="trimtab"'], id="expander and tokens"),
        pytest.param(["loop.enabled=false", "steer.enabled=true"], id="the steerer"),
    ],
)
def test_an_upgrade_changes_no_field_that_cannot_change_and_removes_no_object(earlier: Path, values: list[str]) -> None:
    before, after = objects_of(earlier, *flags(values)), objects_of(CHART, *flags(values))
    assert before.keys() <= after.keys()
    compared = {name: immutable(item) for name, item in before.items() if immutable(item) is not None}
    assert len(compared) > 5
    assert {name: immutable(after[name]) for name in compared} == compared


def test_a_changed_selector_volume_or_role_is_noticed() -> None:
    objects = objects_of(CHART)
    stateful = objects["StatefulSet", "trimtab-actuator"]
    for key, value in (("selector", {}), ("serviceName", "other"), ("volumeClaimTemplates", [])):
        changed = {**stateful, "spec": {**stateful["spec"], key: value}}
        assert immutable(changed) != immutable(stateful), key
    assert immutable({**stateful, "spec": {**stateful["spec"], "replicas": 7}}) == immutable(stateful)


@pytest.fixture(scope="module")
def plane_options(plane: ControlPlane) -> tuple[str, ...]:
    plane.kubectl("create", "namespace", "trimtab")
    return ("--namespace", "trimtab", "--kubeconfig", str(plane.kubeconfig("admin")))


def uids(plane: ControlPlane) -> dict[tuple[str, str], str]:
    """Uids of all that an upgrade may not make anew, by kind and name."""
    kinds = "statefulsets,deployments,services,serviceaccounts,configmaps,persistentvolumeclaims,podgroupcosts"
    namespaced = json.loads(plane.kubectl("get", kinds, "-n", "trimtab", "-o", "json"))["items"]
    definitions = json.loads(plane.kubectl("get", "crds,clusterroles,clusterrolebindings", "-o", "json"))["items"]
    return {
        (item["kind"], item["metadata"]["name"]): item["metadata"]["uid"]
        for item in (*namespaced, *definitions)
        if item in namespaced or "trimtab" in item["metadata"]["name"]
    }


@pytest.fixture
def release(plane: ControlPlane, plane_options: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Helm's options for a release "trimtab" that is removed in the end."""
    yield plane_options
    with suppress(HelmError):
        helm("uninstall", "trimtab", *plane_options)


def revision(options: tuple[str, ...]) -> tuple[int, str]:
    """Number and status of the latest revision of the release."""
    latest = json.loads(helm("history", "trimtab", *options, "-o", "json"))[-1]
    return latest["revision"], latest["status"]


def test_a_release_of_0_1_0_is_upgraded_keeps_its_objects_and_data_and_goes_back(
    plane: ControlPlane, release: tuple[str, ...]
) -> None:
    earlier = next(path for path in EARLIER if path.name == "trimtab-0.1.0.tgz")
    # With its defaults, of which the cloud was one.
    helm("install", "trimtab", earlier, *release)
    cost = {"spec": {"owner": {"kind": "ReplicaSet", "name": "web"}, "costs": {"web-1": 5}}}
    cost |= {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PodGroupCost", "metadata": {"name": "web"}}
    until(lambda: "podgroupcosts" in plane.kubectl("api-resources", "-o", "name"), SLOW_S, "the kind is served")
    plane.kubectl("apply", "-n", "trimtab", "-f", "-", stdin=json.dumps(cost))
    claim = ("PersistentVolumeClaim", "state-trimtab-actuator-0")
    until(lambda: claim in uids(plane), SLOW_S, "the actuator's volume is claimed")
    before = uids(plane)
    assert ("PodGroupCost", "web") in before

    # It names no cloud: the upgrade says so, and changes nothing.
    with pytest.raises(HelmError, match=r"actuator\.cloud is required"):
        helm("upgrade", "trimtab", CHART, *release, "--reset-then-reuse-values")
    assert revision(release) == (1, "deployed")

    helm("upgrade", "trimtab", CHART, *release, "--reset-then-reuse-values", "--values", KWOK)
    assert revision(release) == (2, "deployed")
    assert before.items() <= uids(plane).items()
    reader = json.loads(plane.kubectl("get", "clusterrole", "trimtab-reader", "-o", "json"))
    assert any("csidrivers" in rule["resources"] for rule in reader["rules"]), "the new chart's rights"

    helm("rollback", "trimtab", "1", *release)
    assert revision(release) == (3, "deployed")
    assert before.items() <= uids(plane).items()

    # With all of the earlier chart's values, which the new one does not take: nothing changes.
    with pytest.raises(HelmError, match="/actuator/serveExternalGrpc"):
        helm("upgrade", "trimtab", CHART, *release, "--reuse-values")
    assert revision(release) == (3, "deployed")
