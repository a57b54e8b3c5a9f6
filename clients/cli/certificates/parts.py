"""The components of Trimtab that have certificates: their names, and what each certificate is for. Decides identities:
an access policy names a caller with such a certificate `spiffe://trimtab/PART`.
"""

from typing import Final, NamedTuple

TRUST_DOMAIN: Final = "trimtab"
LOCAL: Final = ("localhost", "127.0.0.1", "::1")
"""Names of this machine, to try the services on it."""


class Component(NamedTuple):
    """One component. `service` : name of its Kubernetes Service, "" = it takes no calls from us. `name` : of its files;
    `text` : what it is, for people.
    """

    name: str
    service: str
    text: str

    @property
    def identity(self) -> str:
        """Return the URI in the certificate."""
        return f"spiffe://{TRUST_DOMAIN}/{self.name}"

    def hosts(self, namespace: str) -> tuple[str, ...]:
        """Return DNS names and IP addresses of the certificate."""
        if not self.service:
            return ()
        inside = (f"{self.service}.{namespace}", f"{self.service}.{namespace}.svc")
        return (self.service, *inside, f"{inside[-1]}.cluster.local", *LOCAL)


PARTS: Final = (
    Component("planner", "trimtab-planner", "the planner, also as gRPC expander of the Cluster Autoscaler"),
    Component("actuator", "trimtab-actuator", "the actuator, also as externalgrpc provider of the Cluster Autoscaler"),
    # Its health port has the same certificate.
    Component("loop", "trimtab-loop", "`trimtab run`"),
    Component("balancer", "trimtab-balancer", "a load balancer in front of several planners"),
    Component("cluster-autoscaler", "", "the Cluster Autoscaler as a client of both"),
    Component("operator", "", "a user of the command line"),
    Component("metrics", "", "a Prometheus server that scrapes metrics"),
)
