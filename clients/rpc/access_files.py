"""Opens the policy file and the review of tokens by an API server. The file is read again when it changes; an unusable
new version changes nothing. Kubernetes is needed only for reviewing tokens.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.clients.rpc.access import Access, Review
from trimtab.clients.rpc.certificates import Reloaded
from trimtab.clients.rpc.extras import require_extra

if TYPE_CHECKING:
    from trimtab.clients.rpc.access_policy import AccessPolicy


def open_access(policy: Path | None, audience: str, kubeconfig: Path | None) -> Access:
    """Open the policy and the token review that the options name; `audience` "" = tokens are not accepted. The only
    request is a check of permissions. Errors: ValueError, OSError for the policy; ValueError if tokens cannot be
    reviewed; MissingExtraError.
    """
    if kubeconfig is not None and not audience:
        raise ValueError("--token-kubeconfig needs --token-audience: without it no token is taken")
    kept = None if policy is None else _open_policy(policy)
    return Access(kept, _open_review(audience, kubeconfig) if audience else None)


def _open_policy(path: Path) -> "Callable[[], AccessPolicy]":
    from trimtab.clients.rpc.access_policy import read_policy

    return Reloaded((path,), lambda: read_policy(path)).get


def _open_review(audience: str, kubeconfig: Path | None) -> Review:
    require_extra("kubernetes", "--token-audience")
    from trimtab.clients.kubernetes.errors import ClusterError
    from trimtab.clients.rpc.token_review import open_reviewer

    try:
        return open_reviewer(audience, kubeconfig).review
    except ClusterError as error:
        raise ValueError(f"--token-audience: tokens cannot be reviewed: {error}") from error
