"""Notes about annotations of pods on the controllers of pods, where nobody reads them: a node that was meant to be
protected goes. Decides nothing."""

from collections.abc import Iterator
from typing import Any, Final

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.registry import CONTROLLERS
from trimtab.common.kubernetes.signals.cluster_autoscaler import SAFE_TO_EVICT
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.common.objects.objects import Objects, name_of
from trimtab.common.objects.owners import controller_of

_OF_TEMPLATE: Final = ((SAFE_TO_EVICT.key, "safe_to_evict"), (DO_NOT_DISRUPT.key, "do_not_disrupt"))
"""Annotations, and the fields of a pod that hold them."""


def misplaced_annotation_notes(objects: Objects) -> Iterator[str]:
    """Yield a note for each annotation that a controller has and its pods' template has not. O(controllers).

    A Deployment's annotations are copied to its ReplicaSets: if it is in the input, it alone is named."""
    for kind in dict.fromkeys((*CONTROLLERS, "Deployment")):
        for one in objects.of(kind):
            meta = one.metadata or ObjectMeta()
            if not meta.annotations or _is_owned(objects, meta):
                continue
            for key, field in _OF_TEMPLATE:
                if key in meta.annotations and _of_template(one, field) is None:
                    yield (
                        f"{kind} {name_of(kind, one)}: annotation {key} has no effect there, only on pods; put it into "
                        "spec.template.metadata.annotations"
                    )


def _is_owned(objects: Objects, meta: ObjectMeta) -> bool:
    owner = controller_of(meta.owner_references)
    return owner is not None and owner.kind in objects.given


def _of_template(controller: Any, field: str) -> str | None:
    """Return an annotation of the pods' template; "" = there is no template in the input."""
    template = controller.spec.template if controller.spec else None
    if template is None:
        return ""
    annotations = template.metadata.annotations if template.metadata else None
    return getattr(annotations, field) if annotations is not None else None
