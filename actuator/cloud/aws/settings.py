"""Which Auto Scaling groups the cloud `aws` acts on, and how they are read. Durations in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class AwsSettings:
    """Settings of the cloud."""

    # "" = as boto3 finds it: AWS_REGION, its configuration.
    region: str = ""
    # Groups by name, and tags that a group must have all of ("" = any value). At least one of both.
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    # Address in place of AWS; "" = none.
    endpoint: str = ""
    # Prices by instance type; None = no file. And whether AWS is asked for those that the file does not have.
    prices: Path | None = None
    price_list: bool = False
    # How long what describes groups is kept; `refresh` and own changes end that sooner.
    max_age_s: float = 10.0
    # For how long a read may be older than a write.
    consistency_s: float = 30.0


def read_tags(text: str) -> dict[str, str]:
    """Return tags written as `KEY[=VALUE],…`. Raises `ValueError`."""
    tags: dict[str, str] = {}
    for part in (part.strip() for part in text.split(",")) if text.strip() else ():
        key, _, value = part.partition("=")
        if not key:
            raise ValueError(f"--aws-tags: {part!r} is not KEY or KEY=VALUE")
        tags[key] = value
    return tags
