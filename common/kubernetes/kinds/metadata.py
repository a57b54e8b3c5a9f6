"""Metadata and selectors, shared by all kinds. Source: Kubernetes API, meta/v1."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

Time = Annotated[datetime, Meta(tz=True)]
"""RFC 3339 with a time zone."""

Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer of the API, which has no larger ones."""

Quantities = dict[str, str | Int | float]
"""Resource name to quantity, in any Kubernetes notation, not yet parsed."""


class OwnerReference(Struct, rename="camel", gc=False, omit_defaults=True):
    """Who owns an object; at most one owner is the controller."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Struct, rename="camel", gc=False, omit_defaults=True):
    """`metadata` of every kind but pods."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    generation: Int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: list[OwnerReference] | None = None


class VersionedMeta(ObjectMeta, gc=False):
    """`metadata` for clients that change objects. Snapshots leave the version out: it differs after every change."""

    resource_version: str | None = None


class LabelSelectorRequirement(Struct, gc=False, omit_defaults=True):
    """One expression of a label selector, or of a node selector."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Struct, rename="camel", gc=False, omit_defaults=True):
    """Label selector: all of `match_labels` and `match_expressions`."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorTerm(Struct, rename="camel", gc=False, omit_defaults=True):
    """One alternative of a node selector."""

    match_expressions: list[LabelSelectorRequirement] | None = None
    match_fields: list[LabelSelectorRequirement] | None = None


class NodeSelector(Struct, rename="camel", gc=False, omit_defaults=True):
    """Node selector: any of its terms."""

    node_selector_terms: list[NodeSelectorTerm] | None = None
