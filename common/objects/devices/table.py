"""The devices of a snapshot: slices, classes, claims and rules as one message with its own dictionaries.

The message follows from the objects alone; rows are kept from one call to the next while their objects are the same, so
a change costs a few hundred nanoseconds for each claim and slice that has not changed. Objects that cannot be used are
left out, with a note; a list of devices with a name twice is passed on, and the planner takes its pool for invalid.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from trimtab.common.kubernetes.kinds.devices import (
    DeviceClassSpec,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceDeviceClass,
    ResourceSlice,
)
from trimtab.common.kubernetes.kinds.metadata import NodeSelector, ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.selectors import node_selector_terms
from trimtab.common.objects.devices.claim_rows import ClaimReader, ClaimRow
from trimtab.common.objects.devices.claim_specs import claim_spec, expressions
from trimtab.common.objects.devices.pod_claims import MOST_RESULTS, too_many_devices
from trimtab.common.objects.devices.readable_attributes import attribute_filter
from trimtab.common.objects.devices.slices import (
    PER_DEVICE,
    SliceReader,
    SliceRow,
    counter_sets,
    device_content,
    device_taint,
    duplicates,
)
from trimtab.common.objects.dictionary import Dictionary, int32_column
from trimtab.common.objects.times import timestamp
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.words import counted

T = TypeVar("T")
DEVICE_KINDS: Final = ("DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaimTemplate", "ResourceClaim")
_MOST_OUTDATED: Final = 10_000
"""Contents of objects that are gone, beyond which all are read anew; this only costs time."""
_MOST_NOTES: Final = 5
"""Notes of one kind of objects."""


class DeviceObjects(NamedTuple):
    """The objects of a cluster that say what devices there are and who has which, each kind sorted by name."""

    classes: Sequence[ResourceDeviceClass] = ()
    slices: Sequence[ResourceSlice] = ()
    rules: Sequence[DeviceTaintRule] = ()
    templates: Sequence[ResourceClaimTemplate] = ()
    claims: Sequence[ResourceClaim] = ()
    groups: Sequence[NodeGroup] = ()

    @classmethod
    def of(cls, by_kind: Callable[[str], Sequence[Any]], groups: Sequence[NodeGroup]) -> "DeviceObjects":
        """Return the objects of each kind, as `by_kind` has them."""
        return cls._make([*map(by_kind, DEVICE_KINDS), groups])

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing of devices."""
        return not (any(self[:-1]) or declared_slices(self.groups))


def declared_slices(groups: Iterable[NodeGroup]) -> dict[str, list[ResourceSlice]]:
    """Return the slices that node groups declare for new nodes, by name of the group."""
    return {
        (group.metadata.name if group.metadata else None) or "": group.spec.template.resource_slices
        for group in groups
        if group.spec and group.spec.template and group.spec.template.resource_slices is not None
    }


class DeviceTables:
    """Builds the message, again and again; keeps what it has read of objects."""

    def __init__(self) -> None:
        self._claims: dict[int, ClaimRow] = {}
        self._claim_reader = ClaimReader()
        self._spec_rows: dict[bytes, tuple[pb.DeviceClaimSpec, str]] = {}
        self._slices: dict[int, SliceRow] = {}
        self._texts: tuple[frozenset[str], frozenset[str]] | None = None
        self._slice_reader = SliceReader(None)

    def build(self, objects: DeviceObjects) -> tuple[pb.Devices | None, list[str]]:
        """Return the message, None if there is nothing of devices; and notes for the user."""
        if objects.is_empty:
            return None, []
        if len(self._slice_reader.devices) > 2 * len(objects.slices) + _MOST_OUTDATED:
            self._slices, self._slice_reader, self._texts = {}, SliceReader(None), None
        if len(self._claim_reader.specs) > 2 * len(objects.claims) + _MOST_OUTDATED:
            self._claims, self._claim_reader = {}, ClaimReader()
        notes = _Notes()
        claims = self._claim_rows(objects.claims, notes)
        specs = self._specs(claims, notes)
        classes = _classes(objects.classes, notes)
        self._use_filter(objects.templates, classes, specs)
        slices = self._slice_rows(objects.slices, notes)
        message = pb.Devices(classes=classes)
        writer = _DevicesWriter(message, self._slice_reader, self._claim_reader, notes)
        writer.add_slices(slices)
        writer.add_templates(objects.groups)
        writer.add_claims(claims, {key: number for number, key in enumerate(specs)})
        message.claim_specs.extend(row for row, _ in specs.values())
        message.taint_rules.extend(_rules(objects.rules, notes))
        writer.finish()
        return message, notes.texts()

    def _claim_rows(self, claims: Sequence[ResourceClaim], notes: "_Notes") -> list[ClaimRow]:
        known, read = self._claims, self._claim_reader.row
        rows = [known.get(id(claim)) or read(claim) for claim in claims]
        self._claims = dict(zip(map(id, claims), rows, strict=True))
        for row in rows:
            if len(row.results) == MOST_RESULTS and (problem := too_many_devices(row.object)):
                text = f"{problem}; pods with it wait, and only the first {MOST_RESULTS} count as in use"
                notes.add("ResourceClaim", f"{row.namespace}/{row.name}", text)
        return rows

    def _specs(self, claims: Sequence[ClaimRow], notes: "_Notes") -> dict[bytes, tuple[pb.DeviceClaimSpec, str]]:
        """Return the message of each distinct spec of claims, by first use, and what is wrong with it."""
        specs = {}
        for key in dict.fromkeys(row.spec for row in claims):
            found = self._spec_rows.get(key)
            if found is None:
                try:
                    found = claim_spec(self._claim_reader.specs[key]), ""
                except FieldError as error:
                    found = pb.DeviceClaimSpec(), f"spec.{error}"
            specs[key] = found
        self._spec_rows = specs
        if any(problem for _, problem in specs.values()):
            for row in claims:
                if problem := specs[row.spec][1]:
                    notes.add("ResourceClaim", f"{row.namespace}/{row.name}", f"{problem}; pods with it wait")
        return specs

    def _use_filter(
        self,
        templates: Iterable[ResourceClaimTemplate],
        classes: Iterable[pb.DeviceClass],
        specs: Mapping[bytes, tuple[pb.DeviceClaimSpec, str]],
    ) -> None:
        """Choose which attributes are read; forget the slices that were read with others."""
        wanted = [*(row for row, _ in specs.values()), *filter(None, map(_template_spec, templates))]
        kinds = [alternative for spec in wanted for request in spec.requests for alternative in request.alternatives]
        texts = frozenset(chain(*(one.selectors for one in classes), *(kind.selectors for kind in kinds)))
        limits = [constraint for spec in wanted for constraint in spec.constraints]
        names = frozenset(limit.match_attribute or limit.distinct_attribute for limit in limits)
        if self._texts != (texts, names):
            self._texts = texts, names
            self._slices = {}
            self._slice_reader = SliceReader(attribute_filter(sorted(texts), sorted(names)))

    def _slice_rows(self, slices: Sequence[ResourceSlice], notes: "_Notes") -> list[SliceRow]:
        known, rows = self._slices, []
        for one in slices:
            row = known.get(id(one))
            if row is None:
                try:
                    row = self._slice_reader.row(one)
                except FieldError as error:
                    name = (one.metadata.name if one.metadata else None) or ""
                    notes.add("ResourceSlice", name, f"{error}; it is left out, and nothing of its pool is allocated")
                    continue
                again = duplicates(device for device, _ in self._slice_reader.devices.get(row.devices, ()))
                if again:
                    problem = f"spec.devices: {', '.join(again[:3])} is given twice; nothing of its pool is allocated"
                    notes.add("ResourceSlice", row.name, problem)
            rows.append(row)
        self._slices = {id(row.object): row for row in rows}
        return rows


class _Notes:
    """Notes about objects, a few of each kind."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def add(self, kind: str, name: str, problem: str) -> None:
        self._texts.setdefault(kind, []).append(f"{kind} {name}: {problem}")

    def texts(self) -> list[str]:
        found = []
        for kind, texts in self._texts.items():
            found += texts[:_MOST_NOTES]
            if len(texts) > _MOST_NOTES:
                found.append(f"and {counted(len(texts) - _MOST_NOTES, 'more note')} on {kind} objects")
        return found


class _DevicesWriter:
    """Writes the columns and the dictionaries of one message; call `finish` last."""

    def __init__(self, message: pb.Devices, slices: SliceReader, claims: ClaimReader, notes: _Notes) -> None:
        self._message, self._slices, self._claims, self._notes = message, slices, claims, notes
        # Strings, with the dictionaries' rule that 0 is ""; selectors are messages with indices into it.
        self._dictionary = Dictionary()
        self._contents: dict[bytes, int] = {}
        self._device_sets: dict[bytes, int] = {}
        self._counter_sets: dict[bytes, int] = {}
        self._selectors: dict[bytes, int] = {}

    def add_slices(self, rows: Sequence[SliceRow]) -> None:
        """Write the slices."""
        table = self._message.slices
        table.count = len(rows)
        if not rows:
            return
        _, names, driver, pool, generation, count, node, selector, flags, devices, counters = zip(*rows, strict=True)
        table.names, table.name_lengths = _texts(names)
        table.driver, table.pool = self._strings(driver), self._strings(pool)
        table.generation, table.slice_count = _int64(generation), _int64(count)
        table.node = self._strings(node)
        table.node_selector = self._numbered(selector, self._selector)
        table.flags = np.array(flags, np.uint8).tobytes()
        table.device_set = self._numbered(devices, self._device_set)
        table.counter_set = self._numbered(counters, self._counter_set)

    def add_templates(self, groups: Iterable[NodeGroup]) -> None:
        """Write the slices that node groups declare."""
        for name, declared in declared_slices(groups).items():
            template = self._message.templates.add(node_group=name)
            for at, one in enumerate(declared):
                try:
                    with below(f"spec.template.resourceSlices[{at}]"):
                        row = self._slices.row(one)
                except FieldError as error:
                    self._notes.add("NodeGroup", name, f"{error}; the slice is left out")
                    continue
                template.slices.add(
                    driver=row.driver,
                    pool=row.pool,
                    device_set=self._device_set(row.devices),
                    counter_set=self._counter_set(row.counters),
                    per_device_node_selection=bool(row.flags & PER_DEVICE),
                )

    def add_claims(self, rows: Sequence[ClaimRow], specs: Mapping[bytes, int]) -> None:
        """Write the claims. specs : index of each."""
        table = self._message.claims
        table.count = len(rows)
        if not rows:
            return
        _, namespace, names, spec, pods, pod_claim, flags, node, selector, results, consumers = zip(*rows, strict=True)
        table.namespace = self._strings(namespace)
        table.names, table.name_lengths = _texts(names)
        table.spec = int32_column(list(map(specs.__getitem__, spec)))
        if any(pods):
            table.pods, table.pod_lengths = _texts(pods)
            table.pod_claim = self._strings(pod_claim)
        table.flags = np.array(flags, np.uint8).tobytes()
        if any(node):
            table.node = self._strings(node)
        if any(selector):
            table.node_selector = self._numbered(selector, self._selector)
        self._add_results(table, results)
        table.consumer_claim = _repeated(consumers)
        table.consumers, table.consumer_lengths = _texts(list(chain.from_iterable(consumers)))

    def _add_results(self, table: pb.ResourceClaimTable, results: Sequence[Sequence[Any]]) -> None:
        table.result_claim = _repeated(results)
        flat = list(chain.from_iterable(results))
        if not flat:
            return
        driver, pool, device, request, flags, capacities = zip(*flat, strict=True)
        table.result_driver, table.result_pool = self._strings(driver), self._strings(pool)
        table.result_device, table.result_request = self._strings(device), self._strings(request)
        table.result_flags = np.array(flags, np.uint8).tobytes()
        if any(capacities):
            table.capacity_result = _repeated(capacities)
            names, amounts = zip(*chain.from_iterable(capacities), strict=True)
            table.capacity_name, table.capacity_amount = self._strings(names), self._strings(amounts)

    def finish(self) -> None:
        """Write the dictionaries."""
        message, reader = self._message, self._slices
        for key in self._device_sets:
            devices = reader.devices[key]
            names = [self._dictionary.string(name) for name, _ in devices]
            contents = [self._contents.setdefault(content, len(self._contents)) for _, content in devices]
            message.device_sets.add(names=names, contents=contents)
        for key in self._contents:
            one = reader.contents[key]
            selector = self._selector(reader.selector(one.node_selector)) if one.node_selector is not None else 0
            message.contents.append(device_content(one, selector))
        message.counter_sets.extend(counter_sets(reader.counters[key]) for key in self._counter_sets)
        message.node_selectors.extend(map(self._node_selector, self._selectors))
        message.strings.extend(self._dictionary.strings)

    def _node_selector(self, key: bytes) -> pb.NodeSelector:
        node_selector: NodeSelector = self._slices.selectors.get(key) or self._claims.selectors[key]
        try:
            return self._dictionary.node_selector(node_selector_terms(node_selector)) or pb.NodeSelector()
        except FieldError as error:
            problem = f"status.allocation.nodeSelector: {error}; it selects no node"
            self._notes.add("ResourceClaim", "with a broken selector", problem)
            return pb.NodeSelector()

    def _selector(self, key: bytes) -> int:
        return _number(key, self._selectors)

    def _device_set(self, key: bytes) -> int:
        return _number(key, self._device_sets)

    def _counter_set(self, key: bytes) -> int:
        return _number(key, self._counter_sets)

    def _strings(self, texts: Sequence[str]) -> bytes:
        """Return a column of string indices."""
        return _column(texts, self._dictionary.string)

    @staticmethod
    def _numbered(keys: Sequence[bytes], number: Callable[[bytes], int]) -> bytes:
        """Return a column of indices plus 1; an empty column for no key at all."""
        return _column(keys, number) if any(keys) else b""


def _number(key: bytes, numbers: dict[bytes, int]) -> int:
    """Return the index of a dictionary's entry, plus 1; 0 for none."""
    return numbers.setdefault(key, len(numbers)) + 1 if key else 0


def _column(values: Sequence[T], number: Callable[[T], int]) -> bytes:
    """Return the numbers of values, which are called for once each, in order of first use."""
    numbers = {value: number(value) for value in dict.fromkeys(values)}
    return int32_column(list(map(numbers.__getitem__, values)))


def _texts(texts: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the texts one after the other, and their lengths in bytes."""
    joined = "".join(texts)
    whole = joined.encode()
    if len(whole) == len(joined):
        return whole, int32_column(list(map(len, texts)))
    return whole, int32_column([len(text.encode()) for text in texts])


def _repeated(lists: Sequence[Sequence[Any]]) -> bytes:
    """Return for each item of the lists the index of its list."""
    sizes = np.fromiter(map(len, lists), np.int64, len(lists))
    return np.repeat(np.arange(len(lists), dtype="<i4"), sizes).tobytes()


def _int64(values: Sequence[int]) -> bytes:
    return np.array(values, dtype="<i8").tobytes()


def _classes(classes: Iterable[ResourceDeviceClass], notes: _Notes) -> list[pb.DeviceClass]:
    rows = []
    for one in classes:
        meta, spec = one.metadata or ObjectMeta(), one.spec or DeviceClassSpec()
        try:
            with below("spec"):
                texts, is_other = expressions(spec.selectors)
        except FieldError as error:
            notes.add("DeviceClass", meta.name or "", f"{error}; nothing is allocated with it")
            texts, is_other = [], True
        rows.append(
            pb.DeviceClass(
                name=meta.name or "",
                selectors=texts,
                extended_resource_name=spec.extended_resource_name or "",
                create_time=timestamp(meta.creation_timestamp),
                unknown_selector=is_other,
            )
        )
    return rows


def _rules(rules: Iterable[DeviceTaintRule], notes: _Notes) -> list[pb.DeviceTaintRule]:
    rows = []
    for rule in rules:
        spec = rule.spec or DeviceTaintRuleSpec()
        selector = spec.device_selector or DeviceTaintSelector()
        if spec.taint is None or not spec.taint.key:
            name = (rule.metadata or ObjectMeta()).name or ""
            notes.add("DeviceTaintRule", name, "spec.taint.key: it is missing; the rule is left out")
            continue
        rows.append(
            pb.DeviceTaintRule(
                driver=selector.driver, pool=selector.pool, device=selector.device, taint=device_taint(spec.taint)
            )
        )
    return rows


def _template_spec(template: ResourceClaimTemplate) -> pb.DeviceClaimSpec | None:
    try:
        return claim_spec((template.spec.spec if template.spec else None) or ResourceClaimSpec())
    except FieldError:
        return None  # the pods that refer to it say what is wrong
