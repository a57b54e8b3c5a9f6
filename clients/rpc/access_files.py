"""Opens the policy file, and the review of tokens that the service passes in. The file is read again when it changes;
an unusable new version changes nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.clients.rpc.access import Access, Review
from trimtab.clients.rpc.certificates import Reloaded

if TYPE_CHECKING:
    from trimtab.clients.rpc.access_policy import AccessPolicy


OpenReview = Callable[[str, Path | None], Review]
"""Opens the review of tokens for an audience, by the cluster of a kubeconfig, None = the pod's service account.

Errors: ValueError if tokens cannot be reviewed; MissingExtraError."""


def open_access(policy: Path | None, audience: str, kubeconfig: Path | None, open_review: OpenReview) -> Access:
    """Open the policy and the token review that the options name; `audience` "" = tokens are not accepted. Errors:
    ValueError, OSError for the policy; those of `open_review`.
    """
    if kubeconfig is not None and not audience:
        raise ValueError("--token-kubeconfig needs --token-audience: without it no token is taken")
    kept = None if policy is None else _open_policy(policy)
    return Access(kept, open_review(audience, kubeconfig) if audience else None)


def _open_policy(path: Path) -> "Callable[[], AccessPolicy]":
    from trimtab.clients.rpc.access_policy import read_policy

    return Reloaded((path,), lambda: read_policy(path)).get
