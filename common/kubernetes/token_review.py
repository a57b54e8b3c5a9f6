"""Bearer tokens of Kubernetes ServiceAccounts, checked by the API server.

A token is accepted for one audience only. Decides how long an answer is kept: one minute, so a revoked token is refused
a minute later at the latest; a refusal ten seconds. Tokens are kept as digests. Thread-safe. Units: seconds.
Services name this module without the extra `kubernetes`: what needs it is imported when a review is opened.
Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import grpc
import structlog

from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.registry import BY_KIND, User, rules_of
from trimtab.common.rpc.access import Review
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.common.rpc.extras import require_extra

if TYPE_CHECKING:
    from trimtab.common.kubernetes.api import Api

GRANTED_S: Final = 60.0
REFUSED_S: Final = 10.0
MOST_KEPT: Final = 4096
MAX_TOKEN_CHARS: Final = 16_384
_REVIEW: Final = BY_KIND["TokenReview"]
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""Prefix of the names of ServiceAccounts. Other users are not accepted: an identity provider may give them any name."""
log = structlog.get_logger("tokens")


class _ReviewResult(NamedTuple):
    """The identities of a token, () = it is not valid, and until when they hold, monotonic seconds. `until_s` : the
    time.
    """

    until_s: float
    identities: tuple[str, ...]


class TokenReviewer:
    """Asks the API server about tokens for one audience, and remembers its answers for a while."""

    def __init__(self, api: "Api", audience: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` : monotonic, seconds."""
        self._api, self._audience, self._clock = api, audience, clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, _ReviewResult] = OrderedDict()

    def review(self, token: str) -> tuple[str, ...]:
        """Return the user of a token as the only identity, () = the token is not valid for the audience.

        Raises ServiceError UNAVAILABLE where the API server does not answer.
        """
        if len(token) > MAX_TOKEN_CHARS:
            return ()
        key = sha256(token.encode()).digest()
        with self._lock:
            known = self._answers.get(key)
            if known is not None and known.until_s > self._clock():
                return known.identities
        identities = self._ask(token)
        with self._lock:
            holds_s = GRANTED_S if identities else REFUSED_S
            self._answers[key] = _ReviewResult(self._clock() + holds_s, identities)
            self._answers.move_to_end(key)
            while len(self._answers) > MOST_KEPT:
                self._answers.popitem(last=False)
        return identities

    def _ask(self, token: str) -> tuple[str, ...]:
        review = _REVIEW.type_meta | {"spec": {"token": token, "audiences": [self._audience]}}
        try:
            status = self._api.json("POST", _REVIEW.path, review).get("status") or {}
        except KubernetesError as error:
            log.warning("a token cannot be checked", detail=str(error))
            message = "the token cannot be checked: the API server does not answer, or forbids it (the log says why)"
            raise ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, message) from error
        name = (status.get("user") or {}).get("username")
        # A server without support for audiences returns none: its approval does not apply to our audience.
        if not status.get("authenticated") or self._audience not in (status.get("audiences") or ()):
            return ()
        if not isinstance(name, str) or not name.startswith(_SERVICE_ACCOUNT):
            return ()
        return (name,)


def open_review(audience: str, kubeconfig: Path | None) -> Review:
    """Connect to the cluster that issues the tokens; the only request is a check of permissions. Raises ValueError if
    tokens cannot be reviewed; MissingExtraError.
    """
    require_extra("kubernetes", "--token-audience")
    try:
        return open_reviewer(audience, kubeconfig).review
    except KubernetesError as error:
        raise ValueError(f"--token-audience: tokens cannot be reviewed: {error}") from error


def open_reviewer(audience: str, kubeconfig: Path | None) -> TokenReviewer:
    """Connect to the cluster that issues the tokens. Raises KubernetesError, also if the permission is missing."""
    from trimtab.common.kubernetes.api import Api
    from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
    from trimtab.common.kubernetes.permissions import require

    api = Api(connect_cluster(ConnectionSettings(kubeconfig)))
    require(api, rules_of(User.TOKEN_REVIEWS))
    return TokenReviewer(api, audience)
