"""`trimtab rightsize FILE… --offers prices.csv`: the cheapest pools for a cluster's pods, at three levels of freedom,
beside what the cluster costs now; or the chosen pools as objects.

Decides which offerings take part: those with a price, of the allowed capacity types and architectures. It says which
do not.
"""

from collections.abc import Sequence
from typing import Final

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.command_options import RightsizeOptions
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.offer_files import OfferFile
from trimtab.clients.cli.options import TABLE, Level, Output, PoolExport
from trimtab.clients.cli.output import Format, note
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.prices import Prices, node_prices
from trimtab.clients.cli.printing import print_document, print_found
from trimtab.clients.cli.rightsize.empty_cluster import EmptyCluster, empty_cluster
from trimtab.clients.cli.rightsize.exports import exported
from trimtab.clients.cli.rightsize.machines import (
    MOST_PROFILES,
    MachineChoice,
    allowed,
    architectures,
    present_machines,
    profiles_of,
)
from trimtab.clients.cli.rightsize.report import Comparison, NowCosts, document, page
from trimtab.clients.cli.rightsize.sizing import Sizer, Sizing, SizingLimits, read_headroom
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects.karpenter.offers import (
    ARCH,
    CAPACITY_TYPES,
    MachineOffer,
    completed,
)
from trimtab.v1 import snapshot_pb2 as pb

ANY: Final = "any"


def _limits(options: RightsizeOptions) -> SizingLimits:
    """Return the limits of pools. Errors: UsageError."""
    if options.max_nodes and options.min_nodes > options.max_nodes:
        raise UsageError(f"--min-nodes {options.min_nodes} and --max-nodes {options.max_nodes} exclude each other")
    return SizingLimits(read_headroom(options.headroom), options.max_pools, options.min_nodes, options.max_nodes)


def _capacity_types(text: str) -> set[str]:
    """Return the allowed capacity types. Errors: UsageError."""
    found = {part.strip() for part in text.split(",") if part.strip()}
    unknown = sorted(found - set(CAPACITY_TYPES))
    if unknown or not found:
        raise UsageError(f"--capacity-type {text}: give some of {', '.join(CAPACITY_TYPES)}")
    return found


def rightsize(options: CommandOptions, asked: RightsizeOptions) -> None:
    """Print the cheapest pools. Errors: UsageError."""
    limits, kinds = _limits(asked), _capacity_types(asked.capacity_type)
    offers = options.offers_of_file
    if offers is None:
        raise UsageError("--offers is missing: give the machines that there are with their prices; see docs/prices.md")
    snapshot, now = options.read(needs_nodes=True), options.moment()
    empty = empty_cluster(snapshot)
    if not empty.pods:
        raise UsageError("there is no pod to place: give pods too")
    present = present_machines(snapshot, empty.workers)
    usable = _usable(completed(offers.offers, present), kinds, asked.arch, present)
    profiles = profiles_of(snapshot, empty.workers)
    if len(profiles) > MOST_PROFILES:
        note(
            f"nodes have {len(profiles)} sets of labels and taints that pods read: the {MOST_PROFILES} commonest count"
        )
    levels: dict[Level, Sizing | None] = {}
    with open_planner(options.planner, options.settings) as planner:
        for level in Level:
            chosen = allowed(usable, level, present)
            machines = [MachineChoice(one, profile) for profile in profiles[:MOST_PROFILES] for one in chosen]
            found = Sizer(planner, empty, machines, limits, now).best() if machines else None
            # What a narrower level allows, a wider one does too.
            narrower = [one for one in (*levels.values(), found) if one is not None]
            levels[level] = min(narrower, key=lambda one: one.rank, default=None) if found is not None else None
    compared = Comparison(_now(snapshot, empty, options, offers), levels, asked.level, empty, limits, offers.currency)
    _print(compared, asked.output)


def _print(compared: Comparison, output: Output) -> None:
    sizing = compared.chosen
    if sizing is None:
        raise UsageError(f"--level {compared.level}: the list has no instance type of the nodes; use --level any")
    for pod, why in list(sizing.unplaced.items())[:3] if output != TABLE else ():
        note(f"{pod} has no place: {why}")
    if output.form not in set(PoolExport):
        print_found(page(compared), output.format, lambda: document(compared))
    else:
        print_document(exported(sizing, PoolExport(output.form), compared.limits), Format.YAML)


def _usable(
    offers: Sequence[MachineOffer], kinds: set[str], arch: str | None, present: Sequence[MachineOffer]
) -> list[MachineOffer]:
    """Return the offerings that take part; say which do not. Errors: UsageError if none does."""
    known = architectures(present)
    wanted = set(arch.split(",")) if arch not in (None, ANY) else known if arch is None else set()
    unpriced = [one for one in offers if one.price is None]
    if unpriced:
        note(f"{counted(len(unpriced), 'offering')} without a price left out, such as {unpriced[0].key}")
    priced = [one for one in offers if one.price is not None and one.key.capacity_type in kinds]
    found = [one for one in priced if not wanted or one.labels.get(ARCH, "") in ("", *wanted)]
    if len(found) < len(priced):
        names = ", ".join(sorted({one.labels[ARCH] for one in priced} - wanted))
        note(
            f"{counted(len(priced) - len(found), 'offering')} of {names} left out: no node has that architecture, so "
            "images may not; --arch any allows all"
        )
    if not found:
        raise UsageError(f"--offers: no offering has a price and is one of {', '.join(sorted(kinds))}")
    return found


def _now(snapshot: pb.ClusterSnapshot, empty: EmptyCluster, options: CommandOptions, offers: OfferFile) -> NowCosts:
    """Return what the workers cost now: by the list, else by --prices and NodeGroups."""
    given = options.prices_of_file or Prices()
    prices = node_prices(ClusterView(snapshot), offers.prices(given))
    workers = set(empty.workers)
    known = [price.per_hour for node, price in sorted(prices.items()) if node in workers]
    types = sum(1 for worker in workers if worker not in prices)
    return NowCosts(len(workers), sum(known), types)
