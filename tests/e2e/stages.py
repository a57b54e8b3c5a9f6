"""Stages of kwok for special pods: slow to become ready, or long-running jobs.

Made from kwok's own stages, so that everything else stays as it is there.
"""

from pathlib import Path
from typing import Any

import yaml

# A pod with this label takes `slow_ms` to be ready.
SLOW_LABEL = "slow"


def write_stages(binaries: Path, path: Path, *, slow_ms: int, job_ms: int) -> Path:
    """Write a file of stages; returns its path."""
    stages = [stage for stage in yaml.safe_load_all((binaries / "stages.yaml").read_text()) if stage]
    named = {stage["metadata"]["name"]: stage for stage in stages}
    slow = yaml.safe_load(yaml.safe_dump(named["pod-ready"]))
    slow["metadata"]["name"] = "pod-ready-slow"
    slow["spec"]["delay"] = {"durationMilliseconds": slow_ms}
    _require(slow, "Exists")
    _require(named["pod-ready"], "DoesNotExist")
    # kwok ends pods by name, and would do so again when it sees the end begun: then the next pod of a StatefulSet goes.
    named["pod-delete"]["spec"]["selector"]["matchExpressions"].append(
        {"key": ".metadata.deletionGracePeriodSeconds == 0", "operator": "NotIn", "values": ["true"]}
    )
    named["pod-complete"]["spec"]["delay"] = {"durationMilliseconds": job_ms}
    path.write_text(yaml.safe_dump_all([*stages, slow]))
    return path


def _require(stage: dict[str, Any], operator: str) -> None:
    stage["spec"]["selector"]["matchExpressions"].append(
        {"key": f".metadata.labels.{SLOW_LABEL}", "operator": operator}
    )
