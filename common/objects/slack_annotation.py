"""The annotation by which an object other than a pod requests room; those of pods are in `kinds.pods`."""

from typing import Any, Final

from trimtab.common.kubernetes.signals import ours

ANNOTATION: Final = ours.SLACK.key


def slack_annotation(one: Any) -> str | None:
    """Return the request of an object, as written; None if it has none, or the object is None."""
    metadata = one.metadata if one is not None else None
    annotations = metadata.annotations if metadata is not None else None
    return (annotations or {}).get(ANNOTATION)
