"""NodePools that `trimtab rightsize` writes, checked by Karpenter's own definition on a real API server: fields, types,
patterns and CEL rules, with fields that it does not know refused.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import kubernetes as k8s
from tests.builders.cli import listed
from tests.e2e.control_plane.control_plane import ControlPlane

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "clients" / "data" / "machines.csv"
RECORDINGS = ROOT / "clients" / "data" / "recordings"
CRD = Path(__file__).parent / "karpenter" / "crds" / "karpenter.sh_nodepools.yaml"


def written(*arguments: str | Path) -> list[Json]:
    """Return the NodePools for a cluster of files."""
    options = ("--offers", CATALOG, "--now", "2026-03-01T00:00:00Z", "-o", "karpenter")
    command = [sys.executable, "-m", "trimtab.clients.cli", "rightsize", *map(str, (*arguments, *options))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    items: list[Json] = yaml.safe_load(done.stdout)["items"]
    return items


def tainted(folder: Path) -> Path:
    """Write a cluster whose nodes have labels and taints of their own, with and without a value."""
    web, taints = k8s.replica_set("web", 4), ["only=a:NoSchedule", "slow:PreferNoSchedule"]
    labels = {"node.kubernetes.io/instance-type": "m5.2xlarge", "kubernetes.io/arch": "amd64", "team": "a", "empty": ""}
    nodes = [k8s.node(f"n{i}", "8", "30Gi", zone=f"z{i}", labels=labels, taints=taints) for i in range(2)]
    spec = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"team": "a"}}
    return listed(folder, *nodes, web, *k8s.pods_of(web, 4, node="n0", cpu="900m", spec=spec), k8s.namespace())


def refused(plane: ControlPlane, pool: Json) -> str:
    """Create a NodePool without storing it; return why it is refused, "" = it is not."""
    try:
        plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(pool))
    except RuntimeError as error:
        return str(error)
    return ""


def test_written_node_pools_are_valid_by_karpenters_own_definition(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kubectl("create", "-f", str(CRD))
    plane.kubectl("wait", "--for=condition=Established", "crd/nodepools.karpenter.sh", "--timeout=30s")
    pools = [
        *written(tainted(tmp_path)),
        *written(tainted(tmp_path), "--capacity-type", "spot,on-demand", "--level", "same-family", "--max-nodes", "9"),
        *written(RECORDINGS / "openshift-aws.json.gz"),
    ]
    assert len(pools) >= 3
    assert [why for pool in pools if (why := refused(plane, pool))] == []
    pool = pools[0]
    assert "unknown field" in refused(plane, pool | {"spec": {**pool["spec"], "consolidation": {}}})
    requirements = [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["x"]}]
    template = {**pool["spec"]["template"], "spec": {**pool["spec"]["template"]["spec"], "requirements": requirements}}
    assert "restricted" in refused(plane, pool | {"spec": {**pool["spec"], "template": template}})
