"""The clouds whose published price lists can be imported."""

from enum import StrEnum


class PricedCloud(StrEnum):
    """Whose price list it is."""

    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"
