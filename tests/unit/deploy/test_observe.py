"""Alerting rules and the dashboard query existing metrics, and each alert is documented."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from tests.builders import metrics
from tests.builders.metrics import DEPLOY, alerts, queries

JOBS = {"trimtab-planner": metrics.PLANNER, "trimtab-actuator": metrics.REPLACEMENTS | metrics.ACTUATOR}
TARGET_LABELS = {"job", "instance", "namespace", "pod"}
"""Labels that Prometheus adds to what it scrapes."""
PARTS = ("expr", "lhs", "rhs", "vector_selector", "param")


def parts(expression: Any) -> Iterator[Any]:
    """Yield a parsed query and all queries within it."""
    yield expression
    inner = [getattr(expression, part, None) for part in PARTS]
    for one in (*inner, *getattr(expression, "args", ())):
        if one is not None:
            yield from parts(one)


def selectors(expression: Any) -> Iterator[Any]:
    """Return all series selectors within a parsed query."""
    return (one for one in parts(expression) if isinstance(one, promql_parser.VectorSelector))


def grouping(expression: Any) -> set[str]:
    """Return all labels by which a parsed query groups."""
    modifiers = (getattr(one, "modifier", None) for one in parts(expression))
    return {label for one in modifiers for label in getattr(one, "labels", ())}


def jobs_of(selector: Any) -> list[str]:
    """Return the jobs that a selector selects: one by name, or several by expression."""
    (matcher,) = [one for one in selector.matchers.matchers if one.name == "job"]
    return [job for job in JOBS if re.fullmatch(matcher.value, job)]


def family(name: str) -> str:
    """Return the metric that a series belongs to."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in metrics.HISTOGRAMS else name


@pytest.mark.parametrize(("title", "query"), [pytest.param(*one, id=one[0]) for one in queries()])
def test_a_query_asks_for_series_and_labels_that_exist(title: str, query: str) -> None:
    parsed = promql_parser.parse(query)
    found = list(selectors(parsed))
    assert found, f"{title} asks for nothing"
    for selector in found:
        jobs = jobs_of(selector)
        assert jobs, f"{title}: no such job"
        for job in jobs:
            if selector.name == "up":
                continue
            assert family(selector.name) in JOBS[job], f"{title}: {job} has no {selector.name}"
            own = set(JOBS[job][family(selector.name)]) | TARGET_LABELS | {"le"}
            assert {one.name for one in selector.matchers.matchers} <= own, f"{title}: {selector.name}"
            assert grouping(parsed) <= own, f"{title}: grouped by what {selector.name} does not have"


def test_queries_of_missing_series_are_noticed() -> None:
    with pytest.raises(AssertionError, match="has no nodes_total"):
        test_a_query_asks_for_series_and_labels_that_exist("x", 'sum(nodes_total{job="trimtab-planner"})')
    with pytest.raises(AssertionError, match="grouped by"):
        test_a_query_asks_for_series_and_labels_that_exist("x", 'sum by (zone) (leading{job="trimtab-actuator"})')


def test_each_alert_is_explained_and_nothing_else_is() -> None:
    explained = re.findall(r"^\| `(Trimtab\w+)` \|", (DEPLOY.parent / "docs" / "operate.md").read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(rule["alert"] for rule in alerts())
    for rule in alerts():
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"]["summary"]


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    """The cases are run by hand with Prometheus' promtool: tests/promtool/build.sh."""
    cases = yaml.safe_load((DEPLOY.parent / "tests" / "promtool" / "rules_test.yaml").read_text())["tests"]
    tested = [(one["alertname"], bool(one["exp_alerts"])) for case in cases for one in case["alert_rule_test"]]
    named = {rule["alert"] for rule in alerts()}
    assert {name for name, goes_off in tested if goes_off} == named
    assert {name for name, goes_off in tested if not goes_off} == named
