"""`trimtab explain FILE… pod/NS/NAME | node/NAME`: ask the planner, then tell it."""

import difflib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from trimtab.v1 import plan_pb2, reason_pb2, snapshot_pb2

from clients.cli.explain.cluster_view import ClusterView, PodView
from clients.cli.explain.nodes import explain_node, node_document, node_lines
from clients.cli.explain.pods import PodExplanation, explain_pod, fit_lines, pod_document, pod_lines
from clients.cli.failures import InputError
from clients.cli.output import Format, print_document, stdout_console
from clients.cli.plan import Asked
from clients.cli.planners import PlannerAccess, open_planner
from clients.cli.sources import read_snapshot


def explain(asked: Asked) -> None:
    """Explain the subject, which is the last of `asked.files`."""
    if not asked.files:
        raise InputError("write: trimtab explain FILE… pod/NAMESPACE/NAME, or node/NAME")
    kind, name = _subject(str(asked.files[-1]))
    asked = replace(asked, files=asked.files[:-1])
    request = asked.request()
    snapshot = read_snapshot(asked.files)
    view = ClusterView(snapshot)
    with open_planner(asked.planner) as planner:
        if kind == "pod":
            pod = _existing_pod(view, name)
            _tell_pod(_fit(planner, snapshot, request, view, pod), asked.output)
        else:
            _existing_node(view, name)
            _tell_node(planner, view, name, request, asked.output)


def _subject(text: str) -> tuple[str, str]:
    """Read "pod/NAMESPACE/NAME" or "node/NAME"."""
    kind, _, name = text.partition("/")
    parts = name.split("/")
    if (kind == "pod" and len(parts) == 2 and all(parts)) or (kind == "node" and len(parts) == 1 and name):
        return kind, name
    hint = "a file is named, but not what to explain" if Path(text).exists() else f"{text!r} is neither"
    raise InputError(f"last comes pod/NAMESPACE/NAME or node/NAME; {hint}")


def _existing_pod(view: ClusterView, key: str) -> PodView:
    """Find the pod or say which there are."""
    pod = view.pod(key)
    if pod is None:
        raise InputError(f"there is no pod {key} in these files{_near(key, view.pod_keys)}")
    return pod


def _existing_node(view: ClusterView, name: str) -> None:
    """Find the node or say which there are."""
    if name not in view.nodes:
        raise InputError(f"there is no node {name} in these files{_near(name, view.nodes)}")


def _near(name: str, names: Iterable[str]) -> str:
    """Names that a slip of the pen may have meant."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; is it {' or '.join(near)}?" if near else ""


def _fit(
    planner: PlannerAccess,
    snapshot: snapshot_pb2.ClusterSnapshot,
    request: plan_pb2.PlanRequest,
    view: ClusterView,
    pod: PodView,
) -> PodExplanation:
    """Ask where one pod fits."""
    asked = plan_pb2.PlanRequest()
    asked.CopyFrom(request)
    asked.fit_pods.append(pod.key)
    answers = list(planner.check_fit(snapshot, asked))
    if len(answers) != 1:
        raise InputError(f"pod {pod.key} has ended and takes no room; there is nothing to explain")
    return explain_pod(view, pod, answers[0])


def _tell_pod(explanation: PodExplanation, output: Format) -> None:
    """Print what there is to say about a pod."""
    if output is not Format.TABLE:
        print_document(pod_document(explanation), output)
        return
    console = stdout_console()
    for line in pod_lines(explanation):
        console.print(line)


def _tell_node(
    planner: PlannerAccess, view: ClusterView, name: str, request: plan_pb2.PlanRequest, output: Format
) -> None:
    """Print what there is to say about a node; where its pods have no place, what every other node says to the pod."""
    request.decisions.append(plan_pb2.Decision.SCALE_DOWN)
    explanation = explain_node(view, name, planner.plan(view.snapshot, request), request)
    if output is not Format.TABLE:
        print_document(node_document(explanation), output)
        return
    console = stdout_console()
    for line in node_lines(explanation):
        console.print(line)
    node = explanation.unremovable
    if node is None or node.reason != reason_pb2.UnremovableReason.NO_PLACE_TO_MOVE_PODS:
        return
    pod = view.pod(node.blocking_pod)
    if pod is not None:
        console.print(f"\nWithout regard to the other pods that would have to move, {node.blocking_pod}:")
        for line in fit_lines(_fit(planner, view.snapshot, request, view, pod)):
            console.print(line)
