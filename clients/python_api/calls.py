"""The functions of the Python interface: plans and advice, in this process or by a running planner."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from trimtab.clients.advice.result import MOST_PLANS, AdviceReport
from trimtab.clients.cli.advice import advice_options
from trimtab.clients.cli.decisions import read_decisions
from trimtab.clients.cli.documents import read_now, read_settings, settings_of
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.output import notes_collected
from trimtab.clients.cli.plan import AskedCluster, CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.python_api.plan import PlanResult
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.rpc.addresses import AddressError
from trimtab.common.rpc.errors import TrimtabError
from trimtab.v1 import plan_pb2, snapshot_pb2

_AT_FAULT = ("INVALID_ARGUMENT", "UNIMPLEMENTED", "FAILED_PRECONDITION", "NOT_FOUND")


class InputError(ValueError):
    """The input cannot be used; the message names the place and the remedy."""


class PlannerError(RuntimeError):
    """The planner failed, or cannot be reached, although the input was fine."""


@contextmanager
def named_errors() -> Iterator[None]:
    """Raise every expected failure as one of the two errors above."""
    try:
        yield
    except (UsageError, InvalidInputError, AddressError) as error:
        raise InputError(str(error)) from error
    except TrimtabError as error:
        kind = InputError if error.code.name in _AT_FAULT else PlannerError
        raise kind(f"{error.message} ({error.reason_name})") from error
    except FailedError as error:
        raise PlannerError(str(error)) from error


ClusterPart = str | PathLike[str] | snapshot_pb2.ClusterSnapshot
Cluster = ClusterPart | Sequence[ClusterPart]
Settings = str | PathLike[str] | Mapping[str, Any] | plan_pb2.PlanSettings | None


class AdviceInput(TypedDict, total=False):
    """What `trimtab.advise` may be told besides the cluster.

    settings : a file, a mapping such as `{"scaleDown": {"utilizationThreshold": 0.7}}`, or the message
    now : time to decide for, default the current one; text as in RFC 3339
    prices : a file with prices of instance types
    group_by : labels that define node groups if the input has none, such as "karpenter.sh/nodepool"
    """

    settings: Settings
    now: datetime | str | None
    prices: str | PathLike[str] | None
    group_by: str | None


class PlanInput(AdviceInput, total=False):
    """What `trimtab.plan` may be told besides the cluster: all of `AdviceInput`, and these.

    state : the last plan, so that timers continue
    decisions : such as "scale-down"; default scale-up and scale-down, and the others where the input asks for them
    """

    state: PlanResult | None
    decisions: Sequence[str]


def plan(*cluster: Cluster, planner: str | None = None, **options: Unpack[PlanInput]) -> PlanResult:
    """Return the plan for a cluster, as `trimtab plan` makes it.

    cluster : files with Kubernetes objects (`kubectl get -o json`, YAML, `.gz` too), also as a list, or one recording,
    or one snapshot
    planner : "host:port" of a running planner, default: in this process
    options : see `PlanInput`

    Errors: InputError, PlannerError, MissingExtraError.
    """
    with _opened(planner) as opened:
        return _plan(opened, cluster, options)


def advise(
    *cluster: Cluster, planner: str | None = None, most_plans: int = MOST_PLANS, **options: Unpack[AdviceInput]
) -> AdviceReport:
    """Return what to change so that more nodes could go, as `trimtab advise` says it.

    cluster, planner : as for `plan`
    most_plans : bound on the plans that are made
    options : see `AdviceInput`

    Errors: InputError, PlannerError, MissingExtraError.
    """
    with _opened(planner) as opened:
        return _advise(opened, cluster, options, most_plans)


class Client:
    """A running planner at "host:port". Use it as a context, or close it.

    It has the calls of `trimtab.plan` and `trimtab.advise`.
    """

    def __init__(self, address: str) -> None:
        """Set up. The connection is opened on first use. Errors: InputError."""
        from trimtab.clients.planner_client import PlannerClient

        with named_errors():
            self._client = PlannerClient(address)

    def plan(self, *cluster: Cluster, **options: Unpack[PlanInput]) -> PlanResult:
        """Return the plan for a cluster: see `trimtab.plan`."""
        with named_errors():
            return _plan(self._client, cluster, options)

    def advise(self, *cluster: Cluster, most_plans: int = MOST_PLANS, **options: Unpack[AdviceInput]) -> AdviceReport:
        """Return what to change so that more nodes could go: see `trimtab.advise`."""
        with named_errors():
            return _advise(self._client, cluster, options, most_plans)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()


def client(address: str) -> Client:
    """Return the client of a running planner at "host:port". Errors: InputError."""
    return Client(address)


def _request(options: PlanInput) -> plan_pb2.PlanRequest:
    """Return the request without its cluster and decisions. Errors: UsageError."""
    request = plan_pb2.PlanRequest(settings=_settings(options.get("settings")))
    now, state = options.get("now"), options.get("state")
    if isinstance(now, datetime):
        request.now.FromDatetime(now)
    else:
        request.now.CopyFrom(read_now(now))
    if state is not None:
        request.state.CopyFrom(state.response.state)
    return request


def _settings(given: Settings) -> plan_pb2.PlanSettings:
    """Return settings in any of their forms. Errors: UsageError."""
    if isinstance(given, plan_pb2.PlanSettings):
        copied = plan_pb2.PlanSettings()
        copied.CopyFrom(given)
        return copied
    return settings_of(dict(given)) if isinstance(given, Mapping) else read_settings(Path(given) if given else None)


@contextmanager
def _opened(planner: str | None) -> Iterator[PlannerClient]:
    """Open a planner; nothing is written meanwhile, and expected failures are errors of this package."""
    with named_errors(), notes_collected(), open_planner(planner) as opened:
        yield opened


def _plan(planner: PlannerClient, cluster: Sequence[Cluster], plan_input: PlanInput) -> PlanResult:
    """Ask for a plan."""
    with notes_collected() as notes:
        answer = _asked(cluster, plan_input).plan(planner)
    return PlanResult(answer, (*notes, *answer.summary.notes))


def _asked(cluster: Sequence[Cluster], given: PlanInput) -> AskedCluster:
    """Read a cluster and what is asked about it."""
    snapshots, files = _parts(cluster)
    prices = given.get("prices")
    options = CommandOptions(files, group_by=given.get("group_by"), prices=() if prices is None else (Path(prices),))
    request = _request(given)
    request.decisions.extend(read_decisions(given.get("decisions", ())))
    if snapshots and not files and len(snapshots) == 1:
        snapshot = options.completed(lambda: BuiltSnapshot(_copy(snapshots[0]), []), request)
    else:
        snapshot = options.cluster(request)
    return options.asked(snapshot, request)


def _parts(cluster: Sequence[Cluster]) -> tuple[list[snapshot_pb2.ClusterSnapshot], tuple[Path, ...]]:
    """Return the snapshots and the files of a cluster. Errors: UsageError."""
    snapshots, files = list[snapshot_pb2.ClusterSnapshot](), list[Path]()
    for one in (part for given in cluster for part in (given if isinstance(given, list | tuple) else (given,))):
        if isinstance(one, snapshot_pb2.ClusterSnapshot):
            snapshots.append(one)
        elif isinstance(one, str | PathLike):
            files.append(Path(one))
        else:
            raise UsageError(f"a file, a list of files or a snapshot is expected, not {type(one).__name__}")
    return snapshots, tuple(files)


def _copy(snapshot: snapshot_pb2.ClusterSnapshot) -> snapshot_pb2.ClusterSnapshot:
    """Return a copy, which groups and prices may change."""
    copied = snapshot_pb2.ClusterSnapshot()
    copied.CopyFrom(snapshot)
    return copied


def _advise(planner: PlannerClient, cluster: Sequence[Cluster], given: AdviceInput, most_plans: int) -> AdviceReport:
    """Ask for a plan, then for counterfactual ones."""
    with notes_collected():
        asked = _asked(cluster, {**given, "state": None, "decisions": ()})
        report = asked.plan(planner, advice_options(most_plans=most_plans)).advice
    assert report is not None, "it was asked for"
    return report
