"""Invalid settings of a real cluster are reported before anything is done; a simulated one is read once."""

import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kubernetes import listed, node
from trimtab.actuator.service.environment import EnvironmentOptions, SettingError
from trimtab.actuator.service.environments import open_environment, open_memory_cluster
from trimtab.actuator.service.options import (
    AwsOptions,
    ExternalOptions,
    KubeOptions,
    KwokOptions,
    SimulationOptions,
    StateOptions,
)
from trimtab.actuator.store.memory import MemoryStore
from trimtab.clients.kubernetes.errors import ConfigurationError

GROUPS = '{"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": {"name": "g"}, "spec": {"maxSize": 3}}'


def open_with(directory: Path, cloud: str = "kwok", **kube: object) -> None:
    options = EnvironmentOptions(SimulationOptions(), KubeOptions(**kube), KwokOptions())  # type: ignore[arg-type]
    with ExitStack() as stack:
        open_environment(stack, StateOptions(state_dir=directory, cloud=cloud), options, MemoryStore(), lambda: None)


def test_kwok_needs_a_file_of_groups(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="needs --cloud-config"):
        open_with(tmp_path)


@pytest.mark.parametrize(
    ("cloud", "options", "flags"),
    [
        (
            "memory",
            EnvironmentOptions(SimulationOptions(), KubeOptions(leader_elect=True), KwokOptions()),
            "--leader-elect",
        ),
        (
            "memory",
            EnvironmentOptions(SimulationOptions(), KubeOptions(kubeconfig=Path("c")), KwokOptions(seed=7)),
            "--kubeconfig, --seed",
        ),
        (
            "kwok",
            EnvironmentOptions(SimulationOptions([Path("c")], pod_stop=9), KubeOptions(), KwokOptions()),
            "--cluster, --pod-stop",
        ),
        (
            "aws",
            EnvironmentOptions(
                SimulationOptions(), KubeOptions(), KwokOptions(), ExternalOptions(cloud_address="127.0.0.1:9")
            ),
            "--cloud-address",
        ),
        (
            "externalgrpc",
            EnvironmentOptions(SimulationOptions(node_start=9), KubeOptions(cloud_config=Path("c")), KwokOptions()),
            "--node-start, --cloud-config",
        ),
        (
            "kwok",
            EnvironmentOptions(
                SimulationOptions(), KubeOptions(), KwokOptions(), ExternalOptions(cloud_address="127.0.0.1:9")
            ),
            "--cloud-address",
        ),
    ],
)
def test_options_that_the_cloud_does_not_read_are_refused(
    tmp_path: Path, cloud: str, options: EnvironmentOptions, flags: str
) -> None:
    with (
        ExitStack() as stack,
        pytest.raises(SettingError, match=f"--cloud {cloud} does not use {flags}; omit it"),
    ):
        open_environment(stack, StateOptions(state_dir=tmp_path, cloud=cloud), options, MemoryStore(), lambda: None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--cloud externalgrpc needs --cloud-address"),
        ({"cloud_address": "127.0.0.1:9", "cloud_cert": Path("c")}, "belong together"),
        (
            {"cloud_address": "127.0.0.1:9", "cloud_cert": Path("c"), "cloud_key": Path("k")},
            "--cloud-cert needs --cloud-ca",
        ),
    ],
)
def test_an_external_provider_needs_an_address_and_files_that_belong_together(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ExternalOptions(**options).open_channel()


def test_the_cloud_aws_needs_groups_or_tags() -> None:
    with pytest.raises(ValueError, match="needs --aws-groups or --aws-tags"):
        AwsOptions(aws_region="eu-central-1").settings()
    settings = AwsOptions(aws_groups="a, b", aws_tags="team=x").settings()
    assert (settings.groups, settings.tags) == (("a", "b"), {"team": "x"})


def test_a_cloud_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="--cloud azure is unknown; this build has: memory, kwok, externalgrpc, aws"):
        open_with(tmp_path, "azure")


@pytest.mark.parametrize(
    "text", [pytest.param(None, id="missing"), pytest.param("", id="empty"), pytest.param("a: [", id="no YAML")]
)
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "groups.json").write_text(GROUPS)
    if text is not None:
        (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigurationError, match="config"):
        open_with(tmp_path, cloud_config=tmp_path / "groups.json", kubeconfig=tmp_path / "config")


def test_a_lease_whose_times_contradict_each_other_is_refused() -> None:
    with pytest.raises(ValueError, match="--renew-deadline 20 < --lease-duration 15 does not hold"):
        KubeOptions(renew_deadline=20).lease()


def test_a_call_of_a_leader_is_over_before_another_may_lead() -> None:
    assert KubeOptions(leader_elect=True, lease_duration=15, renew_deadline=10).call_timeout() == 5
    assert KubeOptions(leader_elect=False).call_timeout() == 10


def test_files_of_a_simulated_cluster_are_read_the_first_time_only(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(listed(node("n1"))))
    options = SimulationOptions([file])
    with closing(open_memory_cluster(tmp_path, options)) as first:
        assert (first.restored, list(first.state.nodes)) == (False, ["n1"])
    file.write_text("no cluster any more")
    with closing(open_memory_cluster(tmp_path, options)) as again:
        assert (again.restored, list(again.state.nodes)) == (True, ["n1"])
