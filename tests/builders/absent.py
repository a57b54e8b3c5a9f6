"""The answers of an API server to requests for what does not exist."""

from typing import Any

from trimtab.common.kubernetes.names import object_at


def absent(path: str) -> tuple[int, dict[str, Any]]:
    """Return status and body for the object at a path, or for a path that is not served at all."""
    resource, name = object_at(path)
    # A server decodes a path before it takes it apart: an escaped slash makes it another, unknown path.
    name = "" if "%2f" in path.lower() else name
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
    if not name:
        return 404, body | {"message": "the server could not find the requested resource", "details": {}}
    return 404, body | {"message": f'{resource} "{name}" not found', "details": {"name": name, "kind": resource}}
