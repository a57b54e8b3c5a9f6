"""The errors of requests to an API server: one class for each case that callers treat differently.

The actuator's errors are others (`trimtab.actuator.kube.cluster`): they are about an object, not about a request.
"""

from trimtab.common.kubernetes.names import object_at


class KubernetesError(Exception):
    """Base class of all errors of a live cluster. The message is for people and names the remedy."""


class ConfigurationError(KubernetesError):
    """There is no usable configuration."""


class ApiError(KubernetesError):
    """The API server answered with an error.

    status : HTTP code; reason : for programs, such as "Expired"; retry_after_s : the server's hint, None = it gave none
    about : the object that a `Status` names as (resource, name), such as ("nodes", "n1"); "" = it names none
    causes : codes of the parts of a failure, such as "FieldManagerConflict"
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after_s: float | None = None,
        about: tuple[str, str] = ("", ""),
    ) -> None:
        named = f"{status} {reason}" if reason else str(status)
        super().__init__(f"the API server answered {named}: {message}")
        self.status, self.reason, self.message, self.retry_after_s = status, reason, message, retry_after_s
        self.about = about
        self.causes: frozenset[str] = frozenset()

    @property
    def is_expired(self) -> bool:
        """Return whether the requested resource version is too old: a new list is needed."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_forbidden(self) -> bool:
        """Return whether a permission is missing."""
        return self.status == 403

    def proves_absence(self, path: str) -> bool:
        """Return whether the object at a path does not exist: only a `Status` about that very object says so.

        An unknown path, a server that starts or a proxy answers 404 too. Source: apimachinery, api/errors:
        `NewNotFound` names resource and object, `NewGenericServerResponse` for an unknown path neither.
        """
        return self.status == 404 and self.reason == "NotFound" and self.about == object_at(path)

    @property
    def is_transient(self) -> bool:
        """Return whether a repetition may succeed; after 401 the token is renewed for the next request."""
        return self.status in (401, 408, 429) or self.status >= 500


class UnreachableError(KubernetesError):
    """There was no complete answer: no connection, a cut one, or silence for too long."""


class MalformedAnswerError(KubernetesError):
    """An answer violates the protocol."""


class MissingPermissionError(KubernetesError):
    """The cluster forbids some verbs; `rules` is the YAML of the missing RBAC rules, one a line."""

    def __init__(self, rules: str) -> None:
        super().__init__(f"the cluster forbids what is needed; give this user a role with these rules:\n{rules}")
        self.rules = rules
