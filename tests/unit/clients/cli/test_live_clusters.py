"""`plan`, `fit`, `explain` and `report` on live clusters behind fake API servers, and on several clusters at once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer, Fault
from tests.builders.cli import Run, listed
from tests.builders.kubernetes_protobuf import encoded
from trimtab.common.kubernetes.registry import WATCHED

SOME = ["--now", "2026-03-01T00:00:00Z"]


def objects() -> list[dict[str, Any]]:
    """Two nodes of one group, the pods of one workload on the first."""
    web = k8s.replica_set("web", 2)
    nodes = [k8s.node(name, cpu="4", labels={"pool": "a"}) for name in ("n1", "n2")]
    return [*nodes, web, k8s.namespace(), *k8s.pods_of(web, 2, node="n1")]


def group(name: str = "a", price: float = 0.5) -> dict[str, Any]:
    return k8s.node_group(name, min_size=0, max_size=5, selector={"pool": "a"}, price=price)


def kubeconfig(folder: Path, **servers: str) -> Path:
    """A kubeconfig with a context for each server; the first one is current."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": next(iter(servers)),
                "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in servers],
            }
        )
    )
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with FakeApiServer() as started:
        for one in objects():
            started.put(WATCHED[one["kind"]].path, encoded(one))
        yield started


def test_a_live_cluster_and_its_export_have_the_same_plan(trimtab: Run, server: FakeApiServer, tmp_path: Path) -> None:
    config, groups = kubeconfig(tmp_path, here=server.url), listed(tmp_path, group(), name="groups.json")
    live = trimtab(
        "plan", "--no-advice", groups, "--context", "here", "--kubeconfig", config, *SOME, "-o", "json"
    ).document()
    of_files = trimtab("plan", "--no-advice", listed(tmp_path, *objects(), group()), *SOME, "-o", "json").document()
    for answer in (live, of_files):
        answer["diagnostics"] = answer["state"] = answer["snapshotVersion"] = None
    assert live == of_files
    assert all(query.get("watch") is None for _, _, query in server.requests)


def test_a_kubeconfig_alone_is_read_at_its_current_context(trimtab: Run, server: FakeApiServer, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, here=server.url)
    done = trimtab("explain", "node/n1", "--kubeconfig", config, *SOME)
    assert (done.code, done.out.split()[:2]) == (0, ["Node", "n1,"])
    assert trimtab("explain", "fit/default/web-0", "--kubeconfig", config).code == 0


def test_every_missing_permission_is_named_by_verb_and_resource(
    trimtab: Run, server: FakeApiServer, tmp_path: Path
) -> None:
    server.forbidden |= {("poddisruptionbudgets", "list"), ("nodes", "list"), ("podtemplates", "list")}
    done = trimtab("plan", "--no-advice", "--context", "here", "--kubeconfig", kubeconfig(tmp_path, here=server.url))
    assert done.code == 1
    rules = yaml.safe_load(done.err.partition("rules:\n")[2])
    assert [(one["resources"], one["verbs"]) for one in rules] == [
        (["poddisruptionbudgets"], ["list"]),
        (["nodes"], ["list"]),
    ]


def test_kinds_that_the_server_does_not_know_make_no_noise(trimtab: Run, server: FakeApiServer, tmp_path: Path) -> None:
    config, groups = kubeconfig(tmp_path, here=server.url), listed(tmp_path, group(), name="groups.json")
    done = trimtab("plan", "--no-advice", groups, "--kubeconfig", config, *SOME)
    assert (done.code, done.err) == (0, "")


def test_kinds_for_slack_alone_may_be_forbidden(trimtab: Run, server: FakeApiServer, tmp_path: Path) -> None:
    path = WATCHED["PodTemplate"].path
    server.fail(path, Fault(status=403, reason="Forbidden"))
    done = trimtab(
        "plan", "--no-advice", listed(tmp_path, group()), "--kubeconfig", kubeconfig(tmp_path, here=server.url), *SOME
    )
    assert done.code == 0
    assert "PodTemplate objects are left out: this user may not list them" in done.err


def test_a_list_whose_pages_expire_is_read_in_one_piece(trimtab: Run, server: FakeApiServer, tmp_path: Path) -> None:
    path = WATCHED["Pod"].path
    server.fail(path, Fault(status=410, reason="Expired"))
    config = kubeconfig(tmp_path, here=server.url)
    answer = trimtab(
        "plan", "--no-advice", listed(tmp_path, group()), "--kubeconfig", config, *SOME, "-o", "json"
    ).document()
    assert answer["diagnostics"]["podCount"] == 2
    assert [query.get("limit") for _, asked, query in server.requests if asked == path] == ["5000", None]


@pytest.mark.parametrize(
    ("context", "told"),
    [
        pytest.param("nowhere", "nowhere", id="unknown"),
        pytest.param("closed", "no answer of http://127.0.0.1:9:", id="unreachable"),
    ],
)
def test_a_context_that_cannot_be_read_is_named(
    trimtab: Run, server: FakeApiServer, tmp_path: Path, context: str, told: str
) -> None:
    config = kubeconfig(tmp_path, here=server.url, closed="http://127.0.0.1:9")
    done = trimtab("plan", "--no-advice", "--context", context, "--kubeconfig", config)
    assert done.code in (1, 2)
    assert told in done.err
    both = trimtab(
        "plan", "--no-advice", "--context", context, "--context", "here", "--kubeconfig", config, *SOME, "-o", "json"
    )
    assert both.code == 1
    rows = json.loads(both.out)["clusters"]
    assert [(one["name"], "error" in one) for one in rows] == [("here", False), (context, True)]
    assert f"1 cluster of 2 left out: {context}" in both.err


def clusters_of_two_sizes(folder: Path) -> tuple[Path, Path]:
    """A cluster that can save little, and one that can save much."""
    small = listed(folder, *(k8s.node(name, labels={"pool": "a"}) for name in ("a", "b")), group(), name="small.json")
    nodes = [k8s.node(f"n{number}", labels={"pool": "a"}) for number in range(9)]
    return small, listed(folder, *nodes, group(price=0.25), name="large.json")


def test_clusters_are_summed_and_sorted_by_what_they_save(trimtab: Run, tmp_path: Path) -> None:
    small, large = clusters_of_two_sizes(tmp_path)
    asked = ("plan", "--cluster", f"small={small}", "--cluster", f"large={large}", *SOME)
    answer = trimtab(*asked, "-o", "json").document()
    assert [one["name"] for one in answer["clusters"]] == ["large", "small"]
    assert [one["plan"]["summary"]["savedPerMonth"] for one in answer["clusters"]] == [9 * 0.25 * 730, 2 * 0.5 * 730]
    sums = answer["total"]
    assert (sums["now"]["nodeCount"], sums["removedNodeCount"]) == (11, 11)
    assert (sums["now"]["pricePerHour"], sums["savedPerMonth"]) == (3.25, 3.25 * 730)
    for one, file in (("small", small), ("large", large)):
        alone = trimtab("plan", "--no-advice", file, *SOME, "-o", "json").document()
        assert next(row for row in answer["clusters"] if row["name"] == one)["plan"] == alone
    out = trimtab(*asked).out
    assert "11 of 11 nodes in 2 clusters can go. That saves 3.25 of 3.25 an hour (100 %), 2,372 a month." in out
    assert out.index("large") < out.index("small") < out.index("all ")


def test_assumed_prices_are_in_no_sum_with_known_ones(trimtab: Run, tmp_path: Path) -> None:
    small, _ = clusters_of_two_sizes(tmp_path)
    nodes = [k8s.node(f"n{number}", labels={"pool": "a"}) for number in range(30)]
    unpriced = listed(tmp_path, *nodes, k8s.node_group("a", 0, 40, selector={"pool": "a"}), name="unpriced.json")
    asked = ("plan", "--cluster", f"unpriced={unpriced}", *SOME)
    answer = trimtab(*asked, "--cluster", f"small={small}", "-o", "json").document()
    assert [(one["name"], bool(one["plan"]["summary"]["assumption"])) for one in answer["clusters"]] == [
        ("small", False),
        ("unpriced", True),
    ]
    sums = answer["total"]
    assert (sums["now"]["pricePerHour"], sums["savedPerMonth"], sums["now"]["unpricedNodeCount"]) == (1.0, 730.0, 30)
    out = " ".join(trimtab(*asked, "--cluster", f"small={small}").out.split())
    assert "That saves 1.00 of 1.00 an hour (100 %), 730 a month; 30 nodes without a price." in out
    assert "* assumed: 0.03 a core" in out
    alone = trimtab(*asked, "--cluster", f"second={unpriced}").out
    assert "That saves about " in alone
    assert " a month (assumed: 0.03 a core" in " ".join(alone.split())


def test_a_cluster_may_have_several_files_and_stand_beside_files_without_a_name(trimtab: Run, tmp_path: Path) -> None:
    small, large = clusters_of_two_sizes(tmp_path)
    nodes = listed(tmp_path, k8s.node("x", labels={"pool": "a"}), name="nodes.json")
    groups = listed(tmp_path, group(), name="g.json")
    parts = ("--cluster", f"third={nodes}", "--cluster", f"third={groups}", "--cluster", f"l={large}")
    answer = trimtab("plan", "--no-advice", small, *parts, *SOME, "-o", "json").document()
    assert {one["name"]: one["plan"]["summary"]["now"]["nodeCount"] for one in answer["clusters"]} == {
        "small": 2,
        "third": 1,
        "l": 9,
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(["--cluster", "a"], "write it as NAME=FILE", id="no file"),
        pytest.param(["--context", "a", "--context", "a"], "two clusters are named a", id="one name twice"),
    ],
)
def test_clusters_that_cannot_be_told_apart_are_refused(trimtab: Run, options: list[str], told: str) -> None:
    done = trimtab("plan", "--no-advice", *options)
    assert done.code == 2
    assert told in done.err


def test_a_command_for_one_cluster_refuses_several(trimtab: Run) -> None:
    done = trimtab("explain", "fit", "--context", "a", "--context", "b")
    assert (done.code, "several clusters are given (a, b)" in done.err) == (2, True)
