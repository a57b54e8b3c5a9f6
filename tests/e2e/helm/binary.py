"""Helm as `.ci/e2e` builds it, and objects that it renders from the chart."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.built_programs import cache_folder

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
KWOK = CHART / "values-kwok.yaml"
"""Values for a test cluster, whose machines are Node objects."""
Json = dict[str, Any]


class HelmError(Exception):
    """Helm refused; its message."""


def binary() -> Path:
    """Where it is: outside the checkout, thrown away at will."""
    return Path(os.environ.get("TRIMTAB_HELM") or cache_folder() / "helm") / "helm"


def helm(*arguments: object) -> str:
    """Run helm; return its output."""
    command = [binary(), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise HelmError(done.stderr + done.stdout)
    return done.stdout


def rendered(*values: str, namespace: str = "trimtab", template: str = "") -> list[Json]:
    """The objects of the chart on a test cluster (KWOK) with such values, each as `key=value`, a JSON value.

    template : a file of the chart's templates, whose objects alone are meant
    """
    options = ["--namespace", namespace, "--values", KWOK, *flags(values)]
    if template:
        options += ["--show-only", f"templates/{template}"]
    found = yaml.safe_load_all(helm("template", "release", CHART, *options))
    return [item for item in found if item]


def flags(values: Sequence[str]) -> list[str]:
    """Helm's flags for values."""
    return [flag for value in values for flag in ("--set-json", value)]


def named(objects: Sequence[Json], kind: str, name: str) -> Json:
    """The one object of this kind and name."""
    (found,) = [item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return found
