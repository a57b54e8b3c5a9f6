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

from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.common.rpc.retries import RetryPolicy, attempts, with_retries

# Errors with status 400 that pass. Source: AWS, "Common errors" of Auto Scaling and EC2.
_PASSING: Final = frozenset(
    {
        "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "TooManyRequestsException",
        "EC2ThrottledException", "ScalingActivityInProgress", "ResourceContention", "RequestTimeout",
        "ServiceUnavailable", "InternalFailure", "InternalError", "Unavailable", "ResourceInUse",
    }
)  # fmt: skip
# Codes of unknown credentials, and of actions that they do not allow. Source: as above.
_UNKNOWN: Final = frozenset(
    {
        "AuthFailure", "IncompleteSignature", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken",
        "MissingAuthenticationToken", "SignatureDoesNotMatch", "UnrecognizedClientException",
    }
)  # fmt: skip
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
# Begins the encoded part of a message of EC2 that refuses a call.
_ENCODED: Final = "Encoded authorization failure message"
_CREDENTIALS: Final = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_GIVE: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give the pod a role with the annotation"
    " eks.amazonaws.com/role-arn of its ServiceAccount"
)
_RENEW: Final = (
    "renew AWS_SESSION_TOKEN, and restart the actuator if it comes from the environment, which is read only once"
)
_CHECK: Final = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the role of the pod"
READS: Final = attempts(6, 0.2, 5.0)


class CredentialsError(CloudRefusedError):
    """AWS got no valid credentials; the error says nothing about the requested resource."""


class AwsCalls(Protocol):
    """AWS, reduced to calls by name."""

    @property
    def region(self) -> str:
        """Return the region that is called; "" = not known."""

    def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Make one call, once. Raises `CloudError`, `CloudRefusedError`."""


class AwsApi:
    """AWS by boto3: credentials and region as boto3 finds them. Thread-safe."""

    def __init__(
        self, region: str = "", endpoint: str = "", timeout_s: float = 20.0, *, has_prices: bool = False
    ) -> None:
        """Set up; makes no call. has_prices : the price list can be called as well. Raises `CloudRefusedError` without
        region, or with half of the credentials.
        """
        config = Config(
            connect_timeout=min(timeout_s, 5.0),
            read_timeout=timeout_s,
            retries={"mode": "standard", "total_max_attempts": 1},
            max_pool_connections=16,
        )
        try:
            session = boto3.session.Session(region_name=region or None)
            self.region = str(session.region_name or "")
            places = {"autoscaling": None, "ec2": None} | (
                {"pricing": _price_region(self.region)} if has_prices else {}
            )
            self._clients = {
                service: session.client(service, region_name=place, config=config, endpoint_url=endpoint or None)
                for service, place in places.items()
            }
        except _CREDENTIALS as error:
            raise CredentialsError(f"AWS cannot be used: {error}; {_GIVE}") from error
        except (BotoCoreError, ValueError) as error:
            raise CloudRefusedError(f"AWS cannot be used: {error}; give --aws-region") from error

    def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Make one call, once."""
        try:
            answer: Mapping[str, Any] = getattr(self._clients[service], operation)(**parameters)
        except ClientError as error:
            raise _of_answer(service, operation, error) from error
        except _CREDENTIALS as error:
            raise CredentialsError(f"{operation}: {error}; {_GIVE}") from error
        except (NoRegionError, ParamValidationError) as error:
            raise CloudRefusedError(f"{operation}: {error}") from error
        except (BotoCoreError, ResponseParserError) as error:
            # No answer, or one that cannot be read.
            raise CloudError(f"{operation}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            # botocore's parser, of an answer in the right form that is none of this call, such as a page of a proxy.
            raise CloudError(f"{operation}: the answer from this address is not AWS's: {error!r}") from error
        return answer


class Reader:
    """Reads: repeated, and page by page."""

    def __init__(self, api: AwsCalls, policy: RetryPolicy = READS) -> None:
        self._api = api
        self._policy = policy

    def read(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Make a call up to six times. Raises `CloudError`."""
        return with_retries(
            lambda: self._api.call(service, operation, **parameters),
            lambda error: self._policy if _is_transient(error) else None,
        )

    def pages(self, service: str, operation: str, key: str, **parameters: Any) -> list[Any]:
        """Return the entries under `key` of all pages. Raises `CloudError`."""
        entries: list[Any] = []
        while True:
            answer = self.read(service, operation, **parameters)
            entries += answer.get(key) or ()
            token = answer.get("NextToken")
            if not token:
                return entries
            if token == parameters.get("NextToken"):
                # A proxy that repeats an answer: the list would grow for ever.
                raise CloudError(f"{operation}: the list does not end: the same page came again")
            parameters["NextToken"] = token


def _price_region(region: str) -> str:
    """Return the region that has the price list of a region. Source: AWS, "AWS Price List" endpoints."""
    if region.startswith("cn-"):
        return "cn-northwest-1"
    return region if region in ("eu-central-1", "ap-south-1") else "us-east-1"


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, CloudError) and not isinstance(error, CloudRefusedError)


def _of_answer(service: str, operation: str, error: ClientError) -> CloudError:
    """Return our error of an answer that is one."""
    answer: Mapping[str, Any] = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    # What follows differs from call to call: the same problem would be reported again and again.
    message = str(answer.get("Error", {}).get("Message", "")).partition(_ENCODED)[0].rstrip()
    text = f"{operation}: {code}: {message}"
    if code in _PASSING or status >= 500 or status == 429:
        return CloudError(text)
    if code in _EXPIRED or code in _UNKNOWN:
        return CredentialsError(f"{text}; {_RENEW if code in _EXPIRED else _CHECK}")
    if code in _DENIED:
        action = "".join(word.capitalize() for word in operation.split("_"))
        return CloudRefusedError(f"{text}; allow {service}:{action} to the actuator in its IAM policy")
    return CloudRefusedError(text)
