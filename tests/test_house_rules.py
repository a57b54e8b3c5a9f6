"""House rules that no tool checks: sizes, names, twins, layering, no machine-specific paths.

Each test collects and shows all offences, so one run is enough to correct them.
"""

import ast
import fnmatch
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.counter_readers import KIND_MODULES, counters_read, counters_returned_by
from tests.reference.predicates import compose as predicates
from tests.twin_comparisons import compared, declared, functions_in, twins_of
from trimtab.common.kubernetes.signals.signal import CONDITION, FIELD
from trimtab.common.kubernetes.signals.table import SIGNALS
from trimtab.planner.predicates.order import KINDS

pytestmark = pytest.mark.ci
"""Rules for those who change the tree: .ci/quick and .ci/run check them, as the linters."""
ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("planner", "actuator", "clients", "common")
ROOTS = tuple(f"trimtab.{name}" for name in SOURCES)
TOP_LEVEL = {
    ".ci", ".dockerignore", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md",
    "LICENSE", "README.md", "actuator", "clients", "common", "deploy", "docs", "planner", "protos", "pyproject.toml",
    "tests",
}  # fmt: skip
BANNED_NAMES = {"utils", "util", "helpers", "helper", "core", "base", "misc", "tools"}
NAMES_OF_NOTHING = {
    *("one", "ones", "these", "those", "most", "found", "made", "given", "left"),
    *("known", "kept", "asked", "told", "named", "taken", "seen"),
}
"""They say what was done to a value or that there is one, and not what it is."""
MODULE_LINES, FUNCTION_LINES = 500, 80
SIGNALS_PACKAGE = "trimtab.common.kubernetes.signals"
"""The registry of keys, which every package reads."""
PARAMETERS = 8
"""Of kernels too. Others take six, and eight only where a structure would exist only to pass them."""
PURE = ("planner", "actuator/tracker", "actuator/node_types")
# What concerns the files of compiled kernels, and never an answer.
KERNEL_FILES = ("planner/compiled/kernel_cache.py",)
IMPURE_PARTS = (
    "planner/service", "planner/expander", "planner/process.py", "planner/__main__.py",
    *KERNEL_FILES,
)  # fmt: skip
TEXT_SUFFIXES = {".py", ".pyi", ".md", ".toml", ".proto", ".yaml", ".yml", ".sh", ".json", ".txt", ".svg", ""}
# Written such that this file does not violate its own rule.
MACHINE_PATHS = re.compile(
    "|".join(["/wo" + "rk/", "/ho" + r"me/\w", "/ro" + "ot/", "/Us" + r"ers/\w", "/op" + "t/wheels"])
)
REGISTRIES = re.compile(
    "|".join(["pypi" + r"\.org/simple", "proxy" + r"\.golang\.org", "--index" + "-url", "--find" + "-links"])
)


def python_files(*roots: str) -> list[Path]:
    """Return every Python file below the roots that is not generated."""
    return sorted(
        path for root in roots for path in (ROOT / root).rglob("*.py") if "__pycache__" not in path.parts
    )  # fmt: skip


def module_name(path: Path) -> str:
    """Return the dotted name under which a file or package of the sources is imported."""
    return ".".join(["trimtab", *path.relative_to(ROOT).with_suffix("").parts])


def folder_of(package: str) -> str:
    """Return the folder of a package of the sources, from the repository's root."""
    return package.removeprefix("trimtab.").replace(".", "/")


def name_of(path: Path) -> str:
    """Return the path as shown in messages."""
    return path.relative_to(ROOT).as_posix()


KERNEL_MARKS = {"kernel", "inner_kernel", "inlined_kernel", "copied_kernel", "shared_kernel"}
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A function or method of a file; `start` is the line from which its length counts."""

    name: str
    line: int
    start: int
    end: int
    parameter_count: int
    is_kernel: bool
    is_command: bool


class Module(NamedTuple):
    """The checked parts of a file: whether it has a docstring, functions, and classes, imports, texts and names of
    variables with their lines. Texts are constants that are no docstrings, also those inside of f-strings."""

    has_docstring: bool
    functions: tuple[Function, ...]
    classes: tuple[tuple[int, str], ...]
    imports: tuple[tuple[int, str], ...]
    texts: tuple[tuple[int, str], ...]
    names: tuple[tuple[int, str], ...]


@cache
def module(path: Path) -> Module:
    """Read a file, once for all rules."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    nodes = list(ast.walk(tree))
    functions = tuple(function_of(node, path) for node in nodes if isinstance(node, FunctionNode))
    imports = tuple(found for node in nodes for found in imported(node))
    classes = tuple((node.lineno, node.name) for node in nodes if isinstance(node, ast.ClassDef))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in alone)
    texts = tuple((node.lineno, node.value) for node in constants if isinstance(node.value, str))
    stored = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    names = tuple((node.lineno, node.id) for node in stored)
    names += tuple((node.lineno, node.arg) for node in nodes if isinstance(node, ast.arg))
    return Module(bool(ast.get_docstring(tree)), functions, classes, imports, texts, names)


def function_of(node: FunctionNode, path: Path) -> Function:
    """Return the checked parts of a function."""
    arguments = node.args
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    count -= bool(arguments.args) and arguments.args[0].arg in {"self", "cls"}
    # A builder's signature lists all its options; only its body counts.
    start = node.body[0].lineno if "builders" in path.parts else node.lineno
    is_kernel = any(isinstance(mark, ast.Name) and mark.id in KERNEL_MARKS for mark in node.decorator_list)
    is_command = any("command" in ast.dump(mark) for mark in node.decorator_list)
    return Function(node.name, node.lineno, start, node.end_lineno or 0, count, is_kernel, is_command)


def imported(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every module that a statement imports, with its line."""
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        yield node.lineno, node.module


def imports_any(path: Path, *roots: str) -> list[str]:
    """Return the imports of a file from one of the named modules."""
    return [
        f"{name_of(path)}:{line} imports {name}"
        for line, name in module(path).imports
        if any(name == root or name.startswith(root + ".") for root in roots)
    ]


def kept(directory: Path) -> Iterator[Path]:
    """Return files of the repository: without git's own, those in .gitignore, and virtual environments."""
    ignored = [line.strip("/ ") for line in (ROOT / ".gitignore").read_text().splitlines() if line.strip()]
    for path in sorted(directory.iterdir()):
        # Links in protos/trimtab lead to folders that are looked at where they are.
        is_ignored = (
            path.name == ".git" or path.is_symlink() or any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored)
        )
        if not is_ignored and not (path / "pyvenv.cfg").exists():
            yield path


def checked_in() -> list[Path]:
    """Return the text files of the repository."""

    def walk(directory: Path) -> Iterator[Path]:
        for path in kept(directory):
            if path.is_dir():
                yield from walk(path)
            elif path.suffix in TEXT_SUFFIXES:
                yield path

    return list(walk(ROOT))


def no_offences(offences: list[str]) -> None:
    """Fail with the whole list."""
    assert not offences, "\n" + "\n".join(offences)


def test_the_top_level_of_the_repository_is_as_fixed() -> None:
    no_offences(sorted({path.name for path in kept(ROOT)} - TOP_LEVEL))


def test_a_virtual_environment_of_any_name_is_not_part_of_the_repository(tmp_path: Path) -> None:
    for name in ("env", "venv", ".venv", "my-python"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyvenv.cfg").touch()
    (tmp_path / "planner").mkdir()
    assert [path.name for path in kept(tmp_path)] == ["planner"]


def test_no_module_is_longer_than_its_limit() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(*SOURCES, "tests")}
    no_offences([f"{name_of(path)}: {length} lines" for path, length in lengths.items() if length > MODULE_LINES])


def test_no_function_is_longer_than_its_limit() -> None:
    offences = []
    for path in python_files(*SOURCES, "tests"):
        for function in module(path).functions:
            length = function.end - function.start + 1
            if length > FUNCTION_LINES:
                offences.append(
                    f"{name_of(path)}:{function.line} {function.name}: {length} lines, limit {FUNCTION_LINES}"
                )
    no_offences(offences)


def test_no_function_takes_more_parameters_than_its_limit() -> None:
    offences = []
    for path in python_files(*SOURCES):
        for function in module(path).functions:
            count = function.parameter_count
            if count > PARAMETERS and not function.is_command:
                offences.append(f"{name_of(path)}:{function.line} {function.name}: {count} parameters")
    no_offences(offences)


def test_no_module_has_a_meaningless_name() -> None:
    parts = {part for path in python_files(*SOURCES, "tests") for part in path.relative_to(ROOT).with_suffix("").parts}
    no_offences(sorted(parts & BANNED_NAMES))


def test_no_class_name_is_defined_twice_in_the_sources() -> None:
    places: dict[str, list[str]] = {}
    for path in python_files(*SOURCES):
        for line, name in module(path).classes:
            # A leading underscore makes no other word: readers say the same name.
            places.setdefault(name.lstrip("_"), []).append(f"{name_of(path)}:{line}")
    double = {name: found for name, found in places.items() if len(found) > 1}
    no_offences([f"{name}: {', '.join(double[name])}" for name in sorted(double)])


def test_no_value_of_the_planner_is_named_by_a_pronoun_or_participle() -> None:
    no_offences(
        [
            f"{name_of(path)}:{line}: {name}"
            for path in python_files("planner")
            for line, name in module(path).names
            if name in NAMES_OF_NOTHING
        ]
    )


def test_every_module_has_a_docstring() -> None:
    silent = [path for path in python_files(*SOURCES) if not module(path).has_docstring]
    silent += [path for path in python_files("tests") if path.name != "__init__.py" and not module(path).has_docstring]
    no_offences([name_of(path) for path in silent])


def test_sources_and_tests_are_imported_by_the_installed_name_alone() -> None:
    no_offences([line for path in python_files(*SOURCES, "protos", "tests") for line in imports_any(path, *SOURCES)])


def test_no_test_module_imports_another_one_or_a_conftest() -> None:
    module = r"(?:test_\w+|conftest)\b"
    shared = re.compile(rf"\b(?:from|import) tests\.(?:\w+\.)*{module}|\bfrom tests\.[\w.]+ import .*\b{module}")
    offences = []
    for path in python_files("tests"):
        # In programs that tests start too, so not by the syntax tree.
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if shared.search(line):
                offences.append(f"{name_of(path)}:{number} {line.strip()}: shared parts belong in tests/builders")
    no_offences(offences)


def test_the_reason_of_a_skipped_test_says_what_would_run_it() -> None:
    other = re.compile(r"""(?:skipif\(.*reason=|importorskip\(.*reason=|pytest\.skip\()f?["'](?!needs )""")
    offences = [
        f"{name_of(path)}:{number} {line.strip()}: begin with what the test needs"
        for path in python_files("tests")
        if "tests/e2e/" not in name_of(path)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if other.search(line)
    ]
    no_offences(offences)


def test_kernels_live_in_packages_named_kernels() -> None:
    places = [path for path in python_files(*SOURCES) if "kernels" not in path.parts]
    no_offences([f"{name_of(p)}:{f.line} {f.name}" for p in places for f in module(p).functions if f.is_kernel])


def twins_of_kernels(kernel: str) -> list[str]:
    """Return the twins of a module of kernels: of counters, those of the predicates that use them."""
    kinds = {f"trimtab.planner.predicates.kernels.{kind.field}": kind for kind in KINDS}
    if kernel in kinds:
        return twins_of(kinds[kernel])
    return [".".join(["tests", "reference", *[part for part in kernel.split(".")[2:] if part != "kernels"]])]


def test_every_module_of_kernels_is_compared_with_a_naive_twin() -> None:
    paths = [path for path in python_files("tests") if path.name.startswith("test_")]
    tests = [test for path in paths if "reference" in path.read_text(encoding="utf-8") for test in functions_in(path)]
    offences = []
    for path in python_files("planner"):
        if "kernels" not in path.parts or not any(function.is_kernel for function in module(path).functions):
            continue
        kernel = module_name(path)
        for twin in twins_of_kernels(kernel):
            if not (ROOT / (twin.replace(".", "/") + ".py")).exists():
                offences.append(f"{kernel} has no twin {twin}")
            elif not compared(tests, kernel, twin):
                offences.append(f"{kernel} is compared with its twin {twin} in no test")
    no_offences(offences)


def test_naive_twins_import_nothing_of_the_planner_but_its_model() -> None:
    offences = [
        line
        for path in python_files("tests/reference")
        for line in imports_any(path, "trimtab.planner")
        if not re.search(r"imports trimtab\.planner\.model(\.|$)", line)
    ]
    no_offences(offences)


def packages_of_decisions() -> set[str]:
    """The packages from which the planner's table of decisions takes its entries."""
    names = (name for _, name in module(ROOT / "planner/decisions/table.py").imports)
    return {name.removesuffix(".decision") for name in names if name.endswith(".decision")} - {"trimtab.planner.round"}


def test_each_decision_is_a_package_that_knows_no_other_and_that_no_lower_layer_knows() -> None:
    decisions = packages_of_decisions()
    assert "trimtab.planner.scale_down" in decisions
    layers = layers_of_the_planner()
    below = layers[layers.index("trimtab.planner.decisions") + 1 :]
    # Whatever is neither a layer nor a decision would be out of all checks.
    packages = [path for path in (ROOT / "planner").iterdir() if (path / "__init__.py").exists()]
    assert {module_name(path) for path in packages} == {
        *decisions,
        *(layer for layer in layers if (ROOT / folder_of(layer)).is_dir()),
    }
    offences = []
    for own in sorted(decisions):
        files = python_files(folder_of(own))
        above = [name for name in (*ROOTS, *layers, *decisions) if name not in {"trimtab.planner", own, *below}]
        offences += [line for path in files for line in imports_any(path, *above) if SIGNALS_PACKAGE not in line]
    for layer in below:
        files = python_files(folder_of(layer))
        offences += [line for path in files for line in imports_any(path, *sorted(decisions))]
    no_offences(offences)


def layers_of_the_planner() -> list[str]:
    """The planner's layers, from the highest to the lowest, without the packages of decisions."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers" and "containers" not in one)
    return list(layers)


def test_pure_packages_use_no_clock_randomness_or_environment() -> None:
    pure = [path for path in python_files(*PURE) if not name_of(path).startswith(IMPURE_PARTS)]
    banned = ("time", "random", "os", "logging", "socket", "threading", "subprocess", "secrets", "grpc", "structlog")
    no_offences([line for path in pure for line in imports_any(path, *banned)])


KEYS = {row.key for row in SIGNALS if row.kind not in (CONDITION, FIELD) and ("/" in row.key or row.key[0].isupper())}
QUALIFIED = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}/(?!v[0-9])[-A-Za-z0-9._/]*")
NO_SIGNALS = {
    # Plugins and provisioners of volumes, a type of Secrets, groups of versions.
    "kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file", "kubernetes.io/cinder",
    "kubernetes.io/gce-pd", "kubernetes.io/no-provisioner", "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume", "kubernetes.io/tls", "scheduling.k8s.io/", "cluster.x-k8s.io/",
    # A resource, by its name.
    "nvidia.com/gpu",
}  # fmt: skip


def test_keys_of_annotations_labels_and_taints_are_spelled_in_the_registry_alone() -> None:
    """Before, some decisions knew a key and others did not."""
    spelled, unknown = [], []
    for path in python_files(*SOURCES):
        if "signals" in path.parts:
            continue
        for line, text in module(path).texts:
            if text in KEYS:
                spelled.append(f"{name_of(path)}:{line} spells {text}; use its row in common/kubernetes/signals")
            elif QUALIFIED.fullmatch(text) and text not in NO_SIGNALS:
                unknown.append(f"{name_of(path)}:{line} reads {text}, which is in no row of common/kubernetes/signals")
    no_offences(spelled + unknown)


def test_no_waiver_excuses_complexity() -> None:
    waiver = re.compile(r"#\s*noqa(?!:)|#\s*noqa:.*\b(C90|PLR09)|#\s*type:\s*ignore(?!\[)|#\s*mypy:")
    offences = []
    for path in python_files(*SOURCES):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if waiver.search(line):
                offences.append(f"{name_of(path)}:{number} {line.strip()}")
    no_offences(offences)


def test_limits_are_lifted_for_whole_folders_only_where_the_readme_says_so() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ignores = settings["tool"]["ruff"]["lint"]["per-file-ignores"]
    lifted = {path for path, rules in ignores.items() if any(rule.startswith(("C90", "PLR09")) for rule in rules)}
    assert lifted == {"tests/**", "**/kernels/**", "clients/cli/commands.py"}


def test_nothing_names_a_path_or_registry_of_one_machine() -> None:
    offences = []
    for path in checked_in():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if MACHINE_PATHS.search(line) or REGISTRIES.search(line):
                offences.append(f"{name_of(path)}:{number} {line.strip()[:100]}")
    no_offences(offences)


def test_names_of_tests_are_sentences() -> None:
    offences = [
        f"{name_of(path)}:{function.line} {function.name}"
        for path in python_files("tests")
        if path.name.startswith("test_")
        for function in module(path).functions
        if function.name.startswith("test_") and len(function.name.split("_")) < 4
    ]
    no_offences(offences)


@pytest.mark.parametrize("root", SOURCES)
def test_unit_tests_lie_where_the_code_they_test_lies(root: str) -> None:
    folders = {path.parent.relative_to(ROOT / "tests/unit") for path in python_files(f"tests/unit/{root}")}
    no_offences([f"tests/unit/{folder} mirrors nothing" for folder in sorted(folders) if not (ROOT / folder).is_dir()])


def test_every_module_of_a_listed_predicate_has_a_twin_of_its_name() -> None:
    assert predicates.TWINS.keys() == declared().keys()


def test_no_module_outside_the_predicates_looks_into_the_counters_of_a_simulation() -> None:
    layers = layers_of_the_planner()
    # Packages below the predicates know no simulation.
    below = {name.rsplit(".", 1)[-1] for name in layers[layers.index("trimtab.planner.predicates") :]}
    texts = {path: path.read_text(encoding="utf-8") for path in python_files("planner")}
    returning = counters_returned_by(text for text in texts.values() if "ounters" in text)
    words = {"ounters", *returning, *KIND_MODULES}
    sources = [
        path for path in texts if not below.intersection(path.parts) and any(word in texts[path] for word in words)
    ]
    no_offences([f"{name_of(path)}:{line}" for path in sources for line in counters_read(texts[path], returning)])


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return sim.counters.spread.counts", id="a chain"),
        pytest.param("mine = sim.counters\n    return mine.presence", id="an alias"),
        pytest.param("a, b, c = sim.counters", id="unpacked"),
        pytest.param("mine, other = sim.counters, 1\n    return mine.spread", id="an alias of a tuple"),
        pytest.param("for one in sim.counters:\n        pass", id="a loop"),
        pytest.param("return [one for one in sim.counters]", id="a comprehension"),
        pytest.param("return sim.counters[0]", id="an index"),
        pytest.param('return getattr(sim.counters, "spread")', id="by name"),
        pytest.param("return (lambda given: given.spread)(sim.counters)", id="a lambda"),
        pytest.param("return with_more_pods(state, 1).spread", id="what a function returns"),
        pytest.param("return counters.spread", id="an argument"),
        pytest.param("changed = counters\n    changed = changed\n    return changed._replace(spread=1)", id="replaced"),
        pytest.param('return attrgetter("counters.spread.counts")(sim)', id="a path"),
        pytest.param("from trimtab.planner.predicates.presence import PresenceCounters", id="a kind"),
    ],
)
def test_a_look_into_counters_is_found_in_whichever_way_it_is_written(body: str) -> None:
    text = f"def look(sim, counters: Counters):\n    {body}\n"
    assert counters_read(text, {"with_more_pods"}), body


def test_handing_counters_on_is_not_looking_into_them() -> None:
    text = (
        "def go(sim):\n    own = sim.counters\n    count(own, 1)\n    return sim._replace(counters=with_more(own, 2))\n"
    )
    assert counters_read(text, {"with_more"}) == []
