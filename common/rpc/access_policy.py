"""The access policy: a file that defines which identities may do what. Decides the form of the file and what its rules
grant; never who a caller is. Anything that no rule grants is refused. An unknown key or value is an error that names
its place. In patterns `*` stands for any text, also none, and every other character for itself.
"""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.common.rpc.rights import Right

MAX_POLICY_BYTES: Final = 1 << 20


class _Section(BaseModel):
    """A mapping of the file: keys in camelCase, no unknown ones, no conversion of values."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


Pattern = Annotated[str, Field(min_length=1, max_length=512)]


def does_match(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern. O(text + pattern)."""
    first, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    *between, last = parts
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in between:
        position = text.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return at <= end


class CallerRule(_Section):
    """The rights of callers with one of these identities."""

    identities: Annotated[list[Pattern], Field(min_length=1)]
    rights: Annotated[list[Right], Field(min_length=1)]
    # Names of clusters to which `plan` applies. A request without a name has the name "".
    clusters: list[str] = []

    def matches(self, identities: tuple[str, ...]) -> bool:
        """Return whether the rule applies to a caller."""
        return any(does_match(identity, pattern) for identity in identities for pattern in self.identities)


class DeletionRules(_Section):
    """Rules for every deletion, whoever requests it."""

    # Refuse nodes without `assumption`, requests without `plan_time`.
    require_assumption: Annotated[bool, Field(strict=True)] = False
    require_plan_time: Annotated[bool, Field(strict=True)] = False
    # Most nodes that are deleted in the cloud within any hour, and the same as a share of all nodes of its node groups
    # (rounded down, but at least one node). The lower limit applies; None = no limit.
    max_nodes_per_hour: Annotated[int, Field(ge=0, strict=True)] | None = None
    max_share_per_hour: Annotated[float, Field(ge=0, le=1)] | None = None


class AccessPolicy(_Section):
    """The whole file."""

    api_version: Literal["trimtab.dev/v1"]
    kind: Literal["AccessPolicy"]
    callers: list[CallerRule]
    # Rights of callers without certificate and token: a Cluster Autoscaler has none for its expander.
    anonymous: list[Literal[Right.CHOOSE]] = []
    deletions: DeletionRules = DeletionRules()

    def rights(self, identities: tuple[str, ...]) -> frozenset[Right]:
        """Return all rights of a caller; `identities` () = unknown caller."""
        if not identities:
            return frozenset(self.anonymous)
        return frozenset(right for rule in self.callers if rule.matches(identities) for right in rule.rights)

    def may_plan(self, identities: tuple[str, ...], cluster: str) -> bool:
        """Return whether a caller may plan for a cluster."""
        return any(
            Right.PLAN in rule.rights and any(does_match(cluster, pattern) for pattern in rule.clusters)
            for rule in self.callers
            if rule.matches(identities)
        )


def read_policy(path: Path) -> AccessPolicy:
    """Read a policy file. Raises OSError; ValueError, which names the file and the place in it."""
    with path.open("rb") as file:
        data = file.read(MAX_POLICY_BYTES + 1)
    if len(data) > MAX_POLICY_BYTES:
        raise ValueError(f"{path}: a policy has at most {MAX_POLICY_BYTES} bytes")
    try:
        return AccessPolicy.model_validate(load_document(data))
    except DocumentError as error:
        raise ValueError(f"{path}: {error}") from error
    except ValidationError as error:
        raise ValueError(f"{path}: {'; '.join(map(_describe_error, error.errors()[:5]))}") from error


def _describe_error(error: Any) -> str:
    """Return the text of a pydantic error: place and problem."""
    place = ".".join(map(str, error["loc"])) or "the file"
    return f"{place}: {error['msg']}"
