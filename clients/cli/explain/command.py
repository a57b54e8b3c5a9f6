"""`trimtab explain FILE… SUBJECT`: ask the planner about a pod, a node, a workload, a pod group, a ProvisioningRequest,
a placeholder, slack, or on which nodes pods fit, and explain its answer.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from trimtab.clients.advice import AdviceOptions, explain_workload
from trimtab.clients.advice.workloads import WorkloadName
from trimtab.clients.cli.answers.answer import Costs
from trimtab.clients.cli.answers.any_decision import blocks, naming
from trimtab.clients.cli.answers.nodes import explain_node, goes_with_node, node_document, node_lines
from trimtab.clients.cli.answers.page import without_blocks
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.explain.gangs import explain_gang, gang_document, gang_lines, group_keys
from trimtab.clients.cli.explain.growth import explain_growth, growth_document, growth_lines
from trimtab.clients.cli.explain.pods import PodExplanation, explain_pod, fit_lines, pod_document, pod_lines
from trimtab.clients.cli.explain.replacement import (
    explain_replacement,
    has_price,
    replacement_document,
    replacement_lines,
)
from trimtab.clients.cli.explain.requests import print_request
from trimtab.clients.cli.explain.slack import (
    SlackExplanation,
    explain_slack,
    placeholder_document,
    placeholder_lines,
    slack_document,
    slack_lines,
)
from trimtab.clients.cli.explain.workloads import KINDS, find_workload, kind_of, workload_lines, workload_names
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.fit import fit
from trimtab.clients.cli.output import Format, as_document, note, print_document, print_lines, stdout_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import PlannerAccess, open_planner
from trimtab.clients.cli.terminal import printed
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.clients.verdicts import staying
from trimtab.v1 import plan_pb2, reason_pb2, snapshot_pb2

_MOST_CHECKS = 200_000
"""Most pairs of a pod and a node that the explanation of a node checks."""
_SLACK, _PLACEHOLDER = "slack", "placeholder"
_REQUEST, _GANG, _FIT = "provreq", "podgroup", "fit"
_SUBJECTS = (
    "pod/NAMESPACE/NAME, node/NAME, a workload such as deploy/NAMESPACE/NAME, podgroup/NAMESPACE/NAME, "
    "provreq/NAMESPACE/NAME, placeholder/NAME, slack, fit, or fit/NAMESPACE/NAME"
)


def explain(options: CommandOptions) -> None:
    """Explain the subject, which is the last of `options.files`."""
    if not options.files:
        raise UsageError(f"usage: trimtab explain FILE… {_SUBJECTS}")
    files = list(options.files)
    fits = [str(files.pop()) for one in reversed(options.files) if re.match(r"fit(/|$)", str(one))]
    if fits:
        _explain_fits(replace(options, files=tuple(files)), fits[::-1])
        return
    kind, name = _subject(str(options.files[-1]))
    options = replace(options, files=options.files[:-1])
    request = options.request()
    snapshot = options.cluster(request)
    view = ClusterView(snapshot)
    with open_planner(options.planner, options.settings) as planner:
        if kind == "pod":
            pod = _accepted_pod(planner, view, name, request)
            _print_pod(planner, _fit(planner, snapshot, request, view, pod), request, options.output)
        elif kind in (_SLACK, _PLACEHOLDER):
            _print_slack(explain_slack(planner, view, request), name, options.output)
        elif kind == _REQUEST:
            print_request(planner, view, name, request, options.output)
        elif kind == _GANG:
            _print_gang(planner, view, name, request, options.output)
        elif kind == "node":
            _existing_node(view, name)
            _print_node(planner, view, name, request, options.output)
        else:
            _print_workload(planner, view, _existing_workload(view, kind, name), request, options)


def _explain_fits(options: CommandOptions, subjects: Sequence[str]) -> None:
    """Print on which nodes pods fit. subjects : "fit" = all that wait, or some "fit/NAMESPACE/NAME"."""
    pods = [one.removeprefix("fit/") for one in subjects if one != _FIT]
    for pod in pods:
        if pod.count("/") != 1 or pod.startswith("/") or pod.endswith("/"):
            raise UsageError(f"fit/{pod}: write it as fit/NAMESPACE/NAME")
    fit(options, [] if _FIT in subjects else pods)


def _subject(text: str) -> tuple[str, str]:
    """Read a subject as `_SUBJECTS` has them: its kind and its name."""
    kind, _, name = text.partition("/")
    parts = name.split("/")
    if text == _SLACK or (kind == _PLACEHOLDER and name):
        return kind, name
    if (kind in ("pod", _REQUEST, _GANG) and len(parts) == 2 and all(parts)) or (
        kind == "node" and len(parts) == 1 and name
    ):
        return kind, name
    if kind_of(kind) and len(parts) == 2 and all(parts):
        return kind_of(kind), name
    hint = "the files are named, but not the subject" if Path(text).exists() else f"{text!r} is none of them"
    raise UsageError(f"the last argument is {_SUBJECTS}; {hint}")


def _accepted_pod(planner: PlannerAccess, view: ClusterView, key: str, request: plan_pb2.PlanRequest) -> ShownPod:
    """Return the pod. A recorded cluster may break the contract: the planner's error then names table, row and field.

    Errors: UsageError, TrimtabError.
    """
    try:
        return _existing_pod(view, key)
    except (IndexError, ValueError):
        list(planner.check_fit(view.snapshot, request))
        raise


def _existing_pod(view: ClusterView, key: str) -> ShownPod:
    """Return the pod. Errors: UsageError with the nearest names."""
    pod = view.pod(key)
    if pod is None:
        raise UsageError(f"there is no pod {key} in these files{_near(key, view.pod_keys)}")
    return pod


def _existing_node(view: ClusterView, name: str) -> None:
    """Check that the node exists. Errors: UsageError with the nearest names."""
    if name not in view.nodes:
        raise UsageError(f"there is no node {name} in these files{_near(name, view.nodes)}")


def _existing_workload(view: ClusterView, kind: str, name: str) -> WorkloadName:
    """Return the workload. Errors: UsageError with the nearest names."""
    asked = WorkloadName(kind, *name.split("/"))
    found = find_workload(view, asked)
    if found is None:
        short = f"{KINDS[kind][0]}/{name}"
        raise UsageError(f"there is no {asked} with pods in these files{_near(short, workload_names(view))}")
    if found != asked:
        note(f"{asked} belongs to {found}")
    return found


def _near(name: str, names: Iterable[str]) -> str:
    """Return the names closest to a mistyped one."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; is it {' or '.join(near)}?" if near else ""


def _fit(
    planner: PlannerAccess,
    snapshot: snapshot_pb2.ClusterSnapshot,
    request: plan_pb2.PlanRequest,
    view: ClusterView,
    pod: ShownPod,
) -> PodExplanation:
    """Return where one pod fits."""
    of_pod = plan_pb2.PlanRequest()
    of_pod.CopyFrom(request)
    of_pod.fit_pods.append(pod.key)
    answers = list(planner.check_fit(snapshot, of_pod))
    if len(answers) != 1:
        raise UsageError(f"pod {pod.key} has ended and uses no resources; there is nothing to explain")
    return explain_pod(view, pod, answers[0])


def _print_pod(
    planner: PlannerAccess, explanation: PodExplanation, request: plan_pb2.PlanRequest, output: Format
) -> None:
    """Print the explanation of a pod; if it waits, also what scale-up does for it."""
    pod, view = explanation.pod, explanation.view
    growth = None if pod.node else explain_growth(planner, view, pod, request, explanation.fits)
    if output is not Format.TABLE:
        document = pod_document(explanation)
        print_document(document | {"scaleUp": growth_document(growth)} if growth else document, output)
        return
    console = stdout_console()
    print_lines(console, pod_lines(explanation))
    if growth:
        console.print()
        print_lines(console, growth_lines(growth))


def _print_gang(
    planner: PlannerAccess, view: ClusterView, key: str, request: plan_pb2.PlanRequest, output: Format
) -> None:
    """Print the explanation of a pod group. Errors: UsageError with the nearest names."""
    known = group_keys(view)
    if key not in known:
        raise UsageError(f"there is no pod group {key} in these files{_near(key, known)}")
    explanation = explain_gang(planner, view, key, request)
    if output is not Format.TABLE:
        print_document(gang_document(explanation), output)
        return
    print_lines(stdout_console(), gang_lines(view, explanation))


def _print_slack(explanation: SlackExplanation, name: str, output: Format) -> None:
    """Print the explanation of a placeholder, or of slack as a whole if `name` is "".

    Errors: UsageError with the nearest names.
    """
    known = {one.name: one for one in explanation.placeholders}
    if name and name not in known:
        raise UsageError(f"slack has no placeholder {name} here{_near(name, known)}")
    if output is not Format.TABLE:
        document = placeholder_document(explanation, known[name]) if name else slack_document(explanation)
        print_document(document, output)
        return
    print_lines(stdout_console(), placeholder_lines(explanation, known[name]) if name else slack_lines(explanation))


def _print_workload(
    planner: PlannerAccess,
    view: ClusterView,
    workload: WorkloadName,
    request: plan_pb2.PlanRequest,
    options: CommandOptions,
) -> None:
    """Print which nodes a workload keeps."""
    request.decisions.extend(default_decisions(request.settings, view.snapshot))
    answer = planner.plan(view.snapshot, request)
    costs = Costs(answer, view)
    report = explain_workload(planner, view, request, answer, AdviceOptions(), workload)
    if options.output is not Format.TABLE:
        kept = costs.of(one.node for one in report.kept) if costs.known else None
        print_document(report.document() | {"keptPricePerHour": kept}, options.output)
        return
    print_lines(stdout_console(), workload_lines(view, report, costs))


def _homeless(
    planner: PlannerAccess,
    view: ClusterView,
    name: str,
    answer: plan_pb2.PlanResponse,
    request: plan_pb2.PlanRequest,
) -> frozenset[str]:
    """Return the pods that a drain of the node would evict and that fit no other node, even alone; none if checking
    them would take long.
    """
    blocked = {pod.pod for one in answer.nodes for pod in one.blocking_pods}
    pods = [one.key for one in view.pods_on(name) if one.key not in blocked and not goes_with_node(view, one)]
    if not pods or len(pods) * len(view.nodes) > _MOST_CHECKS:
        return frozenset()
    asked = plan_pb2.PlanRequest()
    asked.CopyFrom(request)
    asked.fit_pods.extend(pods)
    return frozenset(
        one.pod
        for one in planner.check_fit(view.snapshot, asked)
        if not any(fit.fits and fit.node != name and view.nodes[fit.node].ready for fit in one.nodes)
    )


def _print_node(
    planner: PlannerAccess, view: ClusterView, name: str, request: plan_pb2.PlanRequest, output: Format
) -> None:
    """Print the explanation of a node, with what keeps it from being replaced where its price is known; if a pod of it
    fits nowhere else, also why no other node takes the pod.
    """
    request.decisions.extend(default_decisions(request.settings, view.snapshot))
    is_asked = plan_pb2.Decision.REPLACEMENT in request.decisions
    if has_price(view, name) and not is_asked:
        request.decisions.append(plan_pb2.Decision.REPLACEMENT)
    request.explain_nodes.append(name)
    answer = planner.plan(view.snapshot, request)
    for text in answer.summary.notes:
        note(text)
    stays = any(one.node == name for one in staying(answer))
    homeless = _homeless(planner, view, name, answer, request) if stays else frozenset[str]()
    explanation = explain_node(view, name, answer, request, homeless)
    others = {field: naming(result, name) for field, result in without_blocks(answer).items()}
    found = {field: part for field, part in others.items() if part is not None}
    replaced = explain_replacement(name, answer, is_asked=is_asked) if answer.HasField("replacement") else None
    if output is not Format.TABLE:
        names = plan_pb2.PlanResponse.DESCRIPTOR.fields_by_name
        more = {names[field].json_name: as_document(part) for field, part in found.items()}
        if replaced is not None:
            more["replacement"] = replacement_document(replaced)
        print_document(node_document(explanation) | more, output)
        return
    console = stdout_console()
    print_lines(console, node_lines(explanation, is_replaced=replaced is not None and replaced.leaving is not None))
    if replaced is not None and (replaced.leaving or replaced.kept):
        console.print()
        print_lines(console, replacement_lines(replaced))
    for field, part in found.items():
        console.print("", *printed(blocks(field, part), verbose=True), sep="\n")
    node = explanation.verdict
    if node.reason != reason_pb2.UnremovableReason.NO_PLACE_TO_MOVE_PODS:
        return
    pod = view.pod(node.blocking_pod)
    if pod is not None:
        console.print(f"\nConsidered alone, without the other pods that would have to move, {node.blocking_pod}:")
        print_lines(console, fit_lines(_fit(planner, view.snapshot, request, view, pod)))
