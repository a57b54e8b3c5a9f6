"""Kernels that come with the distribution, compiled for every processor of an architecture's level.

A release's wheel and the image contain them, a source distribution and a checkout do not; then there is no folder, and
kernels are compiled on first use. Code is used if it was built from the same content
(`trimtab.planner.compiled.kernel_cache`) by the same numba and minor version of Python, and if this processor has every
instruction that it may contain. Otherwise the kernel is compiled for this processor, as without the folder.

`.ci/kernels` builds them.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from llvmlite import binding

FOLDER: Final = Path(__file__).with_name("shipped_kernels")


class ProcessorLevel(NamedTuple):
    """A level of an architecture: LLVM's name of it, and the features that LLVM may use for it."""

    cpu: str
    features: tuple[str, ...]


LEVELS: Final[dict[str, ProcessorLevel]] = {
    # Haswell (2013), Zen and later. Source: x86-64 psABI, "Micro-Architecture Levels".
    "x86_64": ProcessorLevel(
        "x86-64-v3",
        ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "xsave"),
    ),
    # Armv8.0-A with what every such processor has.
    "aarch64": ProcessorLevel("generic", ()),
}


@cache
def target(triple: str) -> tuple[str, str, str] | None:
    """Return numba's key of the shipped code's target (triple, processor, features).

    None = nothing is shipped for this architecture, or this processor lacks an instruction.
    """
    level = LEVELS.get(platform.machine())
    if level is None:
        return None
    try:
        available = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot say for this processor.
        return None
    return (triple, level.cpu, "") if all(available.get(feature) for feature in level.features) else None
