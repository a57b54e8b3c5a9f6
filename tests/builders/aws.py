"""AWS on loopback: moto's server behind a proxy for what moto does not model.

The proxy can throttle calls, lose them after they took effect, or answer with garbage or with a test's own content:
scaling activities, outdated lists, life-cycle states.
"""

import os
import threading
import time
import urllib.request
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.error import HTTPError
from urllib.parse import parse_qs
from xml.etree import ElementTree

import boto3
import botocore.session
import moto.backends
from moto.server import ThreadedMotoServer
from werkzeug.serving import WSGIRequestHandler

# A process uses one session, each test here one of its own: they share the descriptions of AWS's services, megabytes.
botocore.session.create_loader = lru_cache(botocore.session.create_loader)
# moto looks for its services on disk at each request.
_SERVICES = tuple(moto.backends.list_of_moto_modules())
moto.backends.list_of_moto_modules = lambda: _SERVICES

REGION = "eu-central-1"
XML_ERROR = "<ErrorResponse><Error><Code>{code}</Code><Message>as the test wants</Message></Error></ErrorResponse>"


class Fault(NamedTuple):
    """A fault of one call. `code` : of the error; "" = the answer is lost after the call took effect."""

    code: str = ""
    status: int = 400
    body: bytes | None = None


@lru_cache(maxsize=1)
def moto_address() -> str:
    """Return the address of moto's server, started once."""
    # Reading Amazon's images takes seconds at each reset.
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    # As with the proxy's answers below.
    WSGIRequestHandler.disable_nagle_algorithm = True
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


class AwsProxy:
    """The proxy; use as a context manager."""

    def __init__(self) -> None:
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        # By action: converts moto's answer.
        self.edits: dict[str, Callable[[str], str]] = {}
        # By action: answers a request instead of moto, which does not know the action.
        self.answers: dict[str, Callable[[str], str]] = {}
        self.actions: list[str] = []
        # Time that each call takes at least.
        self.delay_s = 0.0

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def fail(self, action: str, *faults: Fault) -> None:
        """Make the next calls of an action fail, in this order."""
        self.faults[action].extend(faults)

    def count(self, action: str) -> int:
        """Return the number of calls of an action."""
        return self.actions.count(action)


def _handler(proxy: AwsProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # The body follows the head at once, not 40 ms later when the head has been acknowledged.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            action = _action(self.headers.get("X-Amz-Target", ""), body)
            proxy.actions.append(action)
            time.sleep(proxy.delay_s)
            fault = proxy.faults[action].popleft() if proxy.faults[action] else None
            if fault is not None and fault.code:
                self._answer(fault.status, fault.body or XML_ERROR.format(code=fault.code).encode())
                return
            if fault is None and action in proxy.answers:
                self._answer(200, proxy.answers[action](body.decode()).encode())
                return
            headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
            request = urllib.request.Request(moto_address(), body, headers)
            try:
                with urllib.request.urlopen(request) as answer:
                    status, content = answer.status, answer.read()
            except HTTPError as error:
                with error:
                    status, content = error.code, error.read()
            if fault is not None:
                self.close_connection = True
                self.connection.close()
                return
            edit = proxy.edits.get(action)
            self._answer(status, edit(content.decode()).encode() if edit else content)

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _action(target: str, body: bytes) -> str:
    """Return the name of a call, by its header or its body: services differ."""
    return target.rpartition(".")[2] or parse_qs(body.decode())["Action"][0]


@contextmanager
def aws() -> Iterator[AwsProxy]:
    """An empty AWS, behind a proxy."""
    urllib.request.urlopen(urllib.request.Request(moto_address() + "/moto-api/reset", b"")).close()
    with AwsProxy() as proxy:
        yield proxy


@lru_cache
def client(service: str) -> Any:
    """Return a client that bypasses the proxy."""
    return boto3.client(service, region_name=REGION, endpoint_url=moto_address())


def launch_template(name: str, instance_type: str | None) -> None:
    """Make a launch template."""
    ec2 = client("ec2")
    data = {"ImageId": ec2.register_image(Name=f"image-{name}")["ImageId"]} | (
        {"InstanceType": instance_type} if instance_type else {}
    )
    ec2.create_launch_template(LaunchTemplateName=f"launch-{name}", LaunchTemplateData=data)


def launch_configuration(name: str, instance_type: str, **more: str) -> None:
    """Make a launch configuration."""
    image = client("ec2").register_image(Name=f"image-of-{name}")["ImageId"]
    client("autoscaling").create_launch_configuration(
        LaunchConfigurationName=f"configuration-{name}", ImageId=image, InstanceType=instance_type, **more
    )


def scaling_group(name: str, sizes: tuple[int, int, int], *, tags: dict[str, str] | None = None, **more: Any) -> None:
    """Make a group; `sizes` : minimum, maximum, desired; by default from the template of its name, in one zone."""
    low, high, target = sizes
    launch = (
        {}
        if more.keys() & {"MixedInstancesPolicy", "LaunchConfigurationName"}
        else {"LaunchTemplate": {"LaunchTemplateName": f"launch-{name}", "Version": "1"}}
    )
    marks = [
        {
            "ResourceId": name,
            "ResourceType": "auto-scaling-group",
            "Key": key,
            "Value": value,
            "PropagateAtLaunch": False,
        }
        for key, value in (tags or {}).items()
    ]
    settings = {"AvailabilityZones": [f"{REGION}a"], **launch, **more}
    client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=name, MinSize=low, MaxSize=high, DesiredCapacity=target, Tags=marks, **settings
    )


def activities(*messages: str) -> Callable[[str], str]:
    """Return an edit that answers with these failed activities, newest first."""

    def edit(_: str) -> str:
        members = "".join(
            f"<member><ActivityId>a-{len(messages) - number}</ActivityId><AutoScalingGroupName>g</AutoScalingGroupName>"
            f"<Cause>c</Cause><StartTime>2027-01-15T08:00:00Z</StartTime><StatusCode>Failed</StatusCode>"
            f"<StatusMessage>{message}</StatusMessage></member>"
            for number, message in enumerate(messages)
        )
        return (
            '<DescribeScalingActivitiesResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">'
            f"<DescribeScalingActivitiesResult><Activities>{members}</Activities></DescribeScalingActivitiesResult>"
            "</DescribeScalingActivitiesResponse>"
        )

    return edit


def with_overrides(answer: str, group: str, members: str) -> str:
    """Return an answer in which the mixed-instances policy of a group has these overrides."""
    before, name, rest = answer.partition(f"<AutoScalingGroupName>{group}</AutoScalingGroupName>")
    head, start, tail = rest.partition("</LaunchTemplateSpecification>")
    after = tail[tail.index("</LaunchTemplate>") :] if start else tail
    return f"{before}{name}{head}{start}<Overrides>{members}</Overrides>{after}" if start else answer


def with_image(answer: str, image: str) -> str:
    """Return an answer whose launch template names this image."""
    before, _, rest = answer.partition("<imageId>")
    return f"{before}<imageId>{image}{rest[rest.index('</imageId>') :]}"


def without_instances(count: int) -> Callable[[str], str]:
    """Return an edit that removes the last instances of each group: they were requested but do not start."""

    def edit(answer: str) -> str:
        root = ElementTree.fromstring(answer)
        for instances in root.iter("{http://autoscaling.amazonaws.com/doc/2011-01-01/}Instances"):
            for member in list(instances)[-count:]:
                instances.remove(member)
        return ElementTree.tostring(root, encoding="unicode")

    return edit


def without_reservations(answer: str) -> str:
    """Remove all instances from an answer of EC2."""
    root = ElementTree.fromstring(answer)
    for found in root.iter(f"{root.tag.partition('}')[0]}}}reservationSet"):
        found.clear()
    return ElementTree.tostring(root, encoding="unicode")
