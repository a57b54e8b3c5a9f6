"""`python -m trimtab.clients.cluster_generator FILE --nodes N --pods P --seed S`: write a synthetic cluster to a
file."""

import argparse
from dataclasses import fields
from pathlib import Path

from trimtab.clients.cluster_generator.layout import generate
from trimtab.clients.cluster_generator.objects import write_list
from trimtab.clients.cluster_generator.shape import ClusterShape


def main() -> None:
    """Write the cluster that the options describe; every field of `ClusterShape` is an option."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="where to; gzip when it ends in .gz")
    for field in fields(ClusterShape):
        kind = float if isinstance(field.default, float) else int
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=kind, default=field.default, help=f"default {field.default}")
    options = vars(parser.parse_args())
    path: Path = options.pop("file")
    try:
        write_list(generate(ClusterShape(**options)), path)
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
