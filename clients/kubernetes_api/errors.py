"""What can go wrong between us and an API server, as few kinds as callers treat differently."""


class ClusterError(Exception):
    """Anything wrong with a live cluster; the message is for people and says what to do."""


class ConfigurationError(ClusterError):
    """There is no usable configuration."""


class ApiError(ClusterError):
    """The API server answered with an error.

    status : HTTP code; reason : for programs, such as "Expired"; retry_after_s : the server's hint, None = it gave none
    """

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        named = f"{status} {reason}" if reason else str(status)
        super().__init__(f"the API server answered {named}: {message}")
        self.status, self.reason, self.message, self.retry_after_s = status, reason, message, retry_after_s

    @property
    def is_expired(self) -> bool:
        """Whether the resource version asked for is too old, so that only a new list helps."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_forbidden(self) -> bool:
        """Whether a permission is missing."""
        return self.status == 403

    @property
    def may_pass(self) -> bool:
        """Whether asking again later may help; after 401 the token is renewed for the next request."""
        return self.status in (401, 408, 429) or self.status >= 500


class UnreachableError(ClusterError):
    """No complete answer came: no connection, cut, or silent for too long."""


class MalformedAnswerError(ClusterError):
    """What came is not what the protocol says."""


class MissingPermissionError(ClusterError):
    """Verbs that the cluster forbids; `rules` is the YAML of the RBAC rules that are missing, one a line."""

    def __init__(self, rules: str) -> None:
        super().__init__(f"the cluster forbids what is needed; give this user a role with these rules:\n{rules}")
        self.rules = rules
