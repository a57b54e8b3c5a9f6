"""Errors of Kubernetes objects. Each names file, kind, name and field, and the remedy."""


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


class _PathPrefix:
    """`with below(path):` prefixes the path of a field error that is raised inside. A class, as a generator takes three
    times as long to enter and leave, which each field of each object does.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing is to be done before an error."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise a field error anew with its whole path."""
        if isinstance(error, FieldError):
            joint = "" if not error.path or error.path.startswith("[") else "."
            raise FieldError(f"{self._path}{joint}{error.path}", error.problem, error.remedy) from None


below = _PathPrefix
