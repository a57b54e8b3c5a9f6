"""Converts Kubernetes objects, as kubectl prints them or a client lists them, to a `ClusterSnapshot`.

`read_files` reads files, recordings too; `decode_objects` takes plain values; `build_snapshot` turns either into rows.
"""

from trimtab.common.kubernetes.object_errors import FieldError, InvalidInputError, ObjectError
from trimtab.common.objects.admission import admitted, pod_of_template
from trimtab.common.objects.build import BuiltSnapshot, Progress, build_snapshot
from trimtab.common.objects.decode import decode_objects
from trimtab.common.objects.files import read_files, read_objects
from trimtab.common.objects.objects import Objects

__all__ = [
    "BuiltSnapshot",
    "FieldError",
    "InvalidInputError",
    "ObjectError",
    "Objects",
    "Progress",
    "admitted",
    "build_snapshot",
    "decode_objects",
    "pod_of_template",
    "read_files",
    "read_objects",
]
