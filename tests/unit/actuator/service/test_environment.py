"""Invalid settings of a real cluster are reported before anything is done."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trimtab.actuator.cloud.table import (
    AwsOptions,
    ExternalOptions,
    KwokOptions,
    MachineOptions,
    OptionSections,
    SimulationOptions,
)
from trimtab.actuator.service.process import open_environment
from trimtab.actuator.service.settings import StateOptions
from trimtab.actuator.settings import KubeOptions, SettingError
from trimtab.actuator.store.records import MemoryStore
from trimtab.common.kubernetes.errors import ConfigurationError

GROUPS = '{"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": {"name": "g"}, "spec": {"maxSize": 3}}'


def open_with(directory: Path, cloud: str, *sections: object) -> None:
    state = StateOptions(state_dir=directory, cloud=cloud)
    with ExitStack() as stack:
        open_environment(stack, state, OptionSections(*sections), MemoryStore(), lambda: None)


def test_kwok_needs_a_file_of_groups(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="needs --cloud-config"):
        open_with(tmp_path, "kwok")


@pytest.mark.parametrize(
    ("cloud", "sections", "flags"),
    [
        pytest.param("memory", [KubeOptions(leader_elect=True)], "--leader-elect", id="memory: leader"),
        pytest.param(
            "memory", [KubeOptions(kubeconfig=Path("c")), KwokOptions(seed=7)], "--kubeconfig, --seed", id="memory: two"
        ),
        pytest.param(
            "kwok", [SimulationOptions([Path("c")], pod_stop=9)], "--cluster, --pod-stop", id="kwok: simulation"
        ),
        pytest.param("kwok", [ExternalOptions(cloud_address="127.0.0.1:9")], "--cloud-address", id="kwok: address"),
        pytest.param("aws", [ExternalOptions(cloud_address="127.0.0.1:9")], "--cloud-address", id="aws: address"),
        pytest.param(
            "externalgrpc",
            [MachineOptions(node_start=9), KwokOptions(cloud_config=Path("c"))],
            "--node-start, --cloud-config",
            id="externalgrpc: kwok",
        ),
    ],
)
def test_options_that_the_cloud_does_not_read_are_refused(
    tmp_path: Path, cloud: str, sections: list[object], flags: str
) -> None:
    with pytest.raises(SettingError, match=f"--cloud {cloud} does not use {flags}; omit it"):
        open_with(tmp_path, cloud, *sections)


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
        open_with(tmp_path, "kwok", KwokOptions(tmp_path / "groups.json"), KubeOptions(kubeconfig=tmp_path / "config"))


def test_a_lease_whose_times_contradict_each_other_is_refused() -> None:
    with pytest.raises(ValueError, match="--renew-deadline 20 < --lease-duration 15 does not hold"):
        KubeOptions(renew_deadline=20).lease()


def test_a_call_of_a_leader_is_over_before_another_may_lead() -> None:
    assert KubeOptions(leader_elect=True, lease_duration=15, renew_deadline=10).call_timeout() == 5
    assert KubeOptions(leader_elect=False).call_timeout() == 10
