"""Which Auto Scaling groups the cloud `aws` acts on, and how they are read. Durations in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer


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


@dataclass(frozen=True)
class AwsOptions:
    """The cloud `aws`: Auto Scaling groups. Credentials come from where boto3 finds them."""

    aws_region: Annotated[str, typer.Option(help="region; empty = as boto3 finds it, for example in AWS_REGION")] = ""
    aws_groups: Annotated[str, typer.Option(help="NAME,… of the Auto Scaling groups to manage")] = ""
    aws_tags: Annotated[str, typer.Option(help="KEY[=VALUE],… : manage the groups that have all of these tags")] = ""
    aws_prices: Annotated[
        Path | None, typer.Option(help="prices by instance type, or answers of AWS with prices (.yaml, .json)")
    ] = None
    aws_price_list: Annotated[
        bool, typer.Option(help="ask AWS for prices: on-demand from its price list, spot from its price history")
    ] = False
    aws_endpoint: Annotated[str, typer.Option(help="address instead of AWS's, for tests")] = ""

    def settings(self) -> AwsSettings:
        """Return the settings of the cloud. Raises `ValueError`."""
        groups = tuple(part.strip() for part in self.aws_groups.split(",") if part.strip())
        tags = read_tags(self.aws_tags)
        if not groups and not tags:
            raise ValueError("--cloud aws needs --aws-groups or --aws-tags: the Auto Scaling groups to manage")
        return AwsSettings(
            self.aws_region, groups, tags, self.aws_endpoint, self.aws_prices, price_list=self.aws_price_list
        )
