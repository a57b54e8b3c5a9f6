"""Calls of AWS: pages, repetition, and which error means what.

Decides that reads are repeated with random growing pauses while AWS throttles or fails, and that a call which changes
something is made once. Never knows what a call means. Seconds.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from actuator.cloud.provider import CloudError, CloudRefusedError
from clients.transport.backoff import Backoff

# Errors with status 400 that pass. Source: AWS, "Common errors" of Auto Scaling and EC2.
_PASSING: Final = frozenset(
    {
        "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "TooManyRequestsException",
        "EC2ThrottledException", "ScalingActivityInProgress", "ResourceContention", "RequestTimeout",
        "ServiceUnavailable", "InternalFailure", "InternalError", "Unavailable", "ResourceInUse",
    }
)  # fmt: skip
_SETUP: Final = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, NoRegionError)
_ATTEMPTS: Final = 6


class Api(Protocol):
    """AWS, reduced to calls by name."""

    def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Make one call, once. Raises `CloudError`, `CloudRefusedError`."""


class AwsApi:
    """AWS by boto3: credentials and region as boto3 finds them. Thread-safe."""

    def __init__(self, region: str = "", endpoint: str = "", timeout_s: float = 20.0) -> None:
        """Set up; makes no call. Raises `CloudRefusedError` without region."""
        config = Config(
            connect_timeout=min(timeout_s, 5.0),
            read_timeout=timeout_s,
            retries={"mode": "standard", "total_max_attempts": 1},
            max_pool_connections=16,
        )
        try:
            session = boto3.session.Session(region_name=region or None)
            self._clients = {
                service: session.client(service, config=config, endpoint_url=endpoint or None)
                for service in ("autoscaling", "ec2")
            }
        except (BotoCoreError, ValueError) as error:
            raise CloudRefusedError(f"AWS cannot be used: {error}; give --aws-region") from error

    def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Make one call, once."""
        try:
            answer: Mapping[str, Any] = getattr(self._clients[service], operation)(**parameters)
        except ClientError as error:
            raise _of_answer(operation, error) from error
        except (*_SETUP, ParamValidationError) as error:
            raise CloudRefusedError(f"{operation}: {error}") from error
        except (BotoCoreError, ResponseParserError) as error:
            # No answer, or one that cannot be read.
            raise CloudError(f"{operation}: {error}") from error
        return answer


class Reader:
    """Reads: repeated, and page by page."""

    def __init__(self, api: Api, backoff: Backoff | None = None) -> None:
        self._api = api
        self._backoff = backoff or Backoff(0.2, 5.0)

    def read(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Make a call up to six times. Raises `CloudError`."""
        retrying = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=self._backoff.pause_s,
            reraise=True,
        )
        answer: Mapping[str, Any] = retrying(self._api.call, service, operation, **parameters)
        return answer

    def pages(self, service: str, operation: str, key: str, **parameters: Any) -> list[Any]:
        """Return the entries under `key` of all pages. Raises `CloudError`."""
        found: list[Any] = []
        while True:
            answer = self.read(service, operation, **parameters)
            found += answer.get(key) or ()
            token = answer.get("NextToken")
            if not token:
                return found
            parameters["NextToken"] = token


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, CloudError) and not isinstance(error, CloudRefusedError)


def _of_answer(operation: str, error: ClientError) -> CloudError:
    """Return our error of an answer that is one."""
    answer: Mapping[str, Any] = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    text = f"{operation}: {code}: {answer.get('Error', {}).get('Message', '')}"
    if code in _PASSING or status >= 500 or status == 429:
        return CloudError(text)
    return CloudRefusedError(text)
