"""Who may call: checks a caller's identities against the access policy. Decides the errors for callers who are not
known or not allowed to make a call; each names what is missing, and is written to the log `audit`. Without policy and
token review, every caller that TLS accepts may do everything. The policy file is read again when it changes; an
unusable new version changes nothing. Thread-safe.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
import structlog

from trimtab.common.rpc.callers import CallerIdentity, bearer_token, certificate_identities, connection_of, set_caller
from trimtab.common.rpc.certificates import Reloaded
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.common.rpc.rights import RIGHT_OF_METHOD, Right

if TYPE_CHECKING:  # pydantic takes a while to load, and commands come past here
    from trimtab.common.rpc.access_policy import AccessPolicy, DeletionRules

audit = structlog.get_logger("audit")

Review = Callable[[str], tuple[str, ...]]
"""Returns the identities of a token, () = it is not valid. Raises ServiceError if that cannot be checked."""

OpenReview = Callable[[str, Path | None], Review]
"""Opens the review of tokens for an audience, by the cluster of a kubeconfig, None = the pod's service account.

Raises ValueError if tokens cannot be reviewed; MissingExtraError."""


@dataclass(frozen=True)
class Access:
    """What callers of a service may do. policy : returns the current policy, None = there is none; review : of bearer
    tokens, None = they are ignored.
    """

    policy: "Callable[[], AccessPolicy] | None" = None
    review: Review | None = None

    @property
    def knows_callers(self) -> bool:
        """Return whether callers without identity are refused."""
        return self.policy is not None or self.review is not None

    def grants_anonymous(self, right: Right) -> bool:
        """Return whether callers without identity currently have any right."""
        if self.policy is not None:
            return right in self.policy().rights(())
        return not self.knows_callers

    def deletion_rules(self) -> "DeletionRules":
        """Return the current rules for deletions."""
        from trimtab.common.rpc.access_policy import DeletionRules

        return DeletionRules() if self.policy is None else self.policy().deletions

    def enter(self, method: str, context: grpc.ServicerContext) -> CallerIdentity:
        """Return the caller of a call and bind it to the thread; refuse one that may not call this method."""
        set_caller(CallerIdentity())
        token = bearer_token(context) if self.review is not None else ""
        identities = certificate_identities(context)
        if token and self.review is not None:
            reviewed = self.review(token)
            if not reviewed:
                raise self._refuse(context, method, CallerIdentity(identities), _BAD_TOKEN)
            identities = (*reviewed, *identities)
        caller = CallerIdentity(identities, connection_of(context, bool(identities)))
        right = RIGHT_OF_METHOD.get(method)
        if self.policy is not None and right is not None and right in self.policy().rights(identities):
            set_caller(caller)
            return caller
        if self.knows_callers and not identities:
            raise self._refuse(context, method, caller, self._missing())
        if self.policy is not None:
            raise self._refuse(context, method, caller, _not_granted(caller, right or method), right)
        set_caller(caller)
        return caller

    def check_cluster(self, caller: CallerIdentity, cluster: str) -> None:
        """Raise ServiceError unless a caller may plan for a cluster."""
        if self.policy is None or self.policy().may_plan(caller.identities, cluster):
            return
        message = _not_granted(caller, f"{Right.PLAN} for cluster {cluster[:100]!r}")
        audit.warning("refused", caller=caller.name, right=Right.PLAN.value, cluster=cluster[:100], detail=message)
        raise not_granted(message, Right.PLAN, cluster)

    def _missing(self) -> str:
        what = "client certificate" if self.review is None else "client certificate and no bearer token"
        return f"the call has no {what}; this service answers only callers that it knows"

    def _refuse(
        self,
        context: grpc.ServicerContext,
        method: str,
        caller: CallerIdentity,
        message: str,
        right: Right | None = None,
    ) -> ServiceError:
        """Write a refusal to the audit log and return its error."""
        audit.warning(
            "refused",
            caller=caller.name,
            identities=list(caller.identities),
            method=method,
            right=right.value if right else "",
            peer=context.peer(),
            detail=message,
        )
        if message.startswith(_NOT_GRANTED):
            return not_granted(message, right)
        return ServiceError(grpc.StatusCode.UNAUTHENTICATED, Reason.CALLER_UNKNOWN, message)


_NOT_GRANTED: Final = "the access policy"
_BAD_TOKEN: Final = "the bearer token is not valid here: it has expired, was revoked, or is for another audience"


def _not_granted(caller: CallerIdentity, what: str) -> str:
    return f"{_NOT_GRANTED} does not grant {what} to {caller.name}; add it to a rule of this identity"


def not_granted(message: str, right: Right | None = None, cluster: str = "") -> ServiceError:
    """PERMISSION_DENIED / CALLER_NOT_ALLOWED: no rule of the policy grants it."""
    metadata = {"right": right.value if right else ""} | ({"cluster": cluster} if cluster else {})
    return ServiceError(grpc.StatusCode.PERMISSION_DENIED, Reason.CALLER_NOT_ALLOWED, message, metadata)


def open_access(policy: Path | None, audience: str, kubeconfig: Path | None, open_review: OpenReview) -> Access:
    """Open the policy and the token review that the options name; `audience` "" = tokens are not accepted. Raises
    ValueError, OSError for the policy; those of `open_review`.
    """
    if kubeconfig is not None and not audience:
        raise ValueError("--token-kubeconfig needs --token-audience: without it no token is taken")
    read = None if policy is None else _open_policy(policy)
    return Access(read, open_review(audience, kubeconfig) if audience else None)


def _open_policy(path: Path) -> "Callable[[], AccessPolicy]":
    from trimtab.common.rpc.access_policy import read_policy

    return Reloaded((path,), lambda: read_policy(path)).get
