"""Errors of Kubernetes objects. Each names file, kind, name and field, and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager


class InvalidInputError(ValueError):
    """Input that cannot be read. The message is complete and meant for the user."""


class FieldError(InvalidInputError):
    """A field with a value that is refused. The caller that knows the object adds kind, name and file.

    path : below the object, such as `spec.containers[0].resources.requests.cpu`; "" = the object itself
    problem : what is wrong; remedy : what to do about it
    """

    def __init__(self, path: str, problem: str, remedy: str = "correct the object, or leave it out") -> None:
        super().__init__(f"{path}: {problem}; {remedy}" if path else f"{problem}; {remedy}")
        self.path, self.problem, self.remedy = path, problem, remedy


class ObjectError(InvalidInputError):
    """A Kubernetes object that cannot be used.

    file : where it was read, "" = given by the caller; kind; name : with the namespace, if it has one;
    path, problem, remedy : as in `FieldError`
    """

    def __init__(self, file: str, kind: str, name: str, error: FieldError) -> None:
        where = f"{file}: " if file else ""
        super().__init__(f"{where}{kind} {name}: {error}")
        self.file, self.kind, self.name = file, kind, name
        self.path, self.problem, self.remedy = error.path, error.problem, error.remedy


@contextmanager
def below(path: str) -> Iterator[None]:
    """Prefix the path of a field error that is raised inside with `path`."""
    try:
        yield
    except FieldError as error:
        joint = "" if not error.path or error.path.startswith("[") else "."
        raise FieldError(f"{path}{joint}{error.path}", error.problem, error.remedy) from None
