"""Examples in YAML, CSV and JSON on the pages are accepted by what reads them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.capacity_buffers import template
from tests.builders.documentation import blocks, commands, target, text_of, words
from tests.builders.kubernetes import snapshot_of
from trimtab.clients.cli.documents import read_settings
from trimtab.clients.simulation.policies.line_protocol import read_answer
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.traces.arrivals import FIELDS, read_arrivals
from trimtab.common.objects import build_snapshot, read_objects
from trimtab.common.rpc.access_policy import read_policy

YAML_OF_SETTINGS = {
    "scaleDown",
    "scaleUp",
    "slack",
    "podCosts",
    "nodeGroups",
    "replacement",
    "capacityRequests",
    "gangs",
}
# `cloud-config` of the Cluster Autoscaler's externalgrpc provider.
YAML_OF_EXTERNALGRPC = {"address", "cacert", "cert", "key", "grpc_timeout"}


def settings(text: str, path: Path) -> None:
    path.write_text(text)
    read_settings(path)


def node_group(text: str, path: Path) -> None:
    path.write_text(text)
    group = yaml.safe_load(text)
    assert [one.id for one in build_snapshot(read_objects([path])).snapshot.node_groups] == [group["metadata"]["name"]]


def policy(text: str, path: Path) -> None:
    path.write_text(text if "kind:" in text else "apiVersion: trimtab.dev/v1\nkind: AccessPolicy\ncallers: []\n" + text)
    read_policy(path)


def externalgrpc(text: str, path: Path) -> None:
    assert set(yaml.safe_load(text)) <= YAML_OF_EXTERNALGRPC


def scraping(text: str, path: Path) -> None:
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["relabel_configs"][0]["regex"] in text_of("deploy/chart/templates/planner.yaml")


def values(text: str, path: Path) -> None:
    """Check that the chart has the values. tests/unit/clients/cli/test_cluster_autoscaler_page.py reads the options."""
    chart = yaml.safe_load(text_of("deploy/chart/values.yaml"))
    for part, content in yaml.safe_load(text).items():
        assert part in chart
        assert not isinstance(content, dict) or set(content) <= set(chart[part])


def scenario(text: str, path: Path) -> None:
    """Check that a part of a scenario is accepted, with the node groups that it mentions."""
    document = yaml.safe_load(text)
    named = {name for one in document.get("reclaims", ()) for name in one.get("nodeGroups", ())}
    groups = document.get("nodeGroups", [])
    missing = named - {one["name"] for one in groups}
    Scenario.model_validate({**document, "nodeGroups": [*groups, *({"name": name} for name in sorted(missing))]})
    assert not path.exists()


def capacity_buffer(text: str, _: Path) -> None:
    made = yaml.safe_load(text)
    (request,) = snapshot_of(made, template(made["spec"]["podTemplateRef"]["name"])).slack_requests.requests
    assert not request.problem
    assert request.is_gang


def reader(text: str) -> Callable[[str, Path], None]:
    """Return what reads an example."""
    document = yaml.safe_load(text)
    if document.get("kind") == "NodeGroup":
        return node_group
    if document.get("kind") == "CapacityBuffer":
        return capacity_buffer
    if document.get("kind") == "AccessPolicy" or "anonymous" in document:
        return policy
    if document.keys() & {"reclaims", "storageClasses", "batches"}:
        return scenario
    if "scrape_configs" in document:
        return scraping
    if "address" in document:
        return externalgrpc
    return settings if set(document) <= YAML_OF_SETTINGS else values


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: f"{block.page}: {block.text.splitlines()[0]}")
def test_an_example_in_yaml_is_accepted_by_what_reads_it(block: Any, tmp_path: Path) -> None:
    reader(block.text)(block.text, tmp_path / "example.yaml")


def test_readmes_node_group_is_one_and_its_dry_run_reads_it(tmp_path: Path) -> None:
    (line,) = [one.line for one in commands() if target(one.line) == "groups.json"]
    node_group(words(line)[0][1], tmp_path / "groups.json")


def test_the_traces_on_their_page_are_read(tmp_path: Path) -> None:
    page = "docs/simulate.md"
    (csv,) = [block.text for block in blocks("csv") if block.page == page]
    lines_, _ = [block.text for block in blocks("json") if block.page == page]
    (tmp_path / "t.csv").write_text(csv)
    (tmp_path / "t.jsonl").write_text(lines_)
    first, second = (read_arrivals(tmp_path / name) for name in ("t.csv", "t.jsonl"))
    assert first == second[:2]
    assert set(re.findall(r"^\| `(\w+)` \|", text_of(page), re.MULTILINE)) >= set(FIELDS)


def test_the_answers_on_the_page_of_external_policies_are_read() -> None:
    page = "docs/simulate.md"
    _, text = [block.text for block in blocks("json") if block.page == page]
    answer, failure = text.splitlines()
    assert read_answer("round 0", answer.encode()).groups == {"general": 2}
    with pytest.raises(ScenarioError, match="round 0: the license has expired"):
        read_answer("round 0", failure.encode())


def test_every_block_of_csv_and_json_is_on_a_page_that_is_read_here() -> None:
    pages = {block.page for language in ("csv", "json") for block in blocks(language)}
    # What is on the page of calls is read by `tests/contract/test_call_it.py`.
    assert pages == {"docs/call-it.md", "docs/simulate.md"}
