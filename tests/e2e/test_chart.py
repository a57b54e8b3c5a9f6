"""The Helm chart, rendered by the real helm: values do what they say."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.builders.manifests import known_options
from tests.e2e.granted_rights import Grant, grants_by_account
from tests.e2e.helm.binary import CHART, ROOT, HelmError, Json, flags, helm, named, rendered
from trimtab.clients.cli.certificates.authority import PARTS
from trimtab.common.kubernetes.registry import User, rules_of
from trimtab.common.rpc.rights import RIGHT_OF_METHOD

pytestmark = pytest.mark.e2e


def container(objects: list[Json], kind: str, name: str, number: int = 0) -> Json:
    return dict(named(objects, kind, name)["spec"]["template"]["spec"]["containers"][number])


def kinds(objects: list[Json]) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


def test_helm_finds_no_fault_with_the_chart() -> None:
    helm("lint", "--strict", CHART)


def test_every_object_is_in_the_namespace_of_the_release_and_none_is_given_twice() -> None:
    everything = (
        'monitoring={"prometheusRule":{"enabled":true},"serviceMonitor":{"enabled":true},"dashboard":{"enabled":true}}',
        'planner.expander.enabled=true', 'access.tokenAudience="trimtab"', "createNamespace=true",
        "tls.certManager.enabled=true",
    )  # fmt: skip
    objects = rendered(*everything, namespace="elsewhere")
    assert len(kinds(objects)) == len(objects)
    assert {item["metadata"].get("namespace", "elsewhere") for item in objects} == {"elsewhere"}
    assert "trimtab" not in {subject["namespace"] for item in objects for subject in item.get("subjects", ())}
    guard = named(objects, "ValidatingAdmissionPolicy", "trimtab-pod-costs")
    assert "system:serviceaccount:elsewhere:trimtab-actuator" in str(guard)
    rule = named(objects, "PrometheusRule", "trimtab")
    assert rule["spec"]["groups"] == yaml.safe_load((CHART / "observe" / "rules.yaml").read_text())["groups"]
    monitors = {item["metadata"]["name"] for item in objects if item["kind"] == "ServiceMonitor"}
    # The job of a series is the name of the Service, which the rules ask for.
    assert monitors == {"trimtab-planner", "trimtab-actuator"}
    dashboard = named(objects, "ConfigMap", "trimtab-dashboard")["data"]["trimtab.json"]
    assert dashboard == (CHART / "observe" / "dashboard.json").read_text()


def test_an_image_is_named_by_its_digest_where_one_is_given() -> None:
    digest = "sha256:" + "0" * 64
    objects = rendered(
        'image.repository="registry.example/trimtab"', f'image.digest="{digest}"', 'image.pullSecrets=["s"]'
    )
    assert container(objects, "Deployment", "trimtab-planner")["image"] == f"registry.example/trimtab@{digest}"
    pod = named(objects, "StatefulSet", "trimtab-actuator")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "s"}]


def test_actuators_with_a_store_that_they_share_have_no_volume_and_its_url_in_no_command_line() -> None:
    objects = rendered("actuator.replicas=2", 'actuator.store.urlSecret="store"', 'actuator.cloud="aws"')
    spec = named(objects, "StatefulSet", "trimtab-actuator")["spec"]
    assert "volumeClaimTemplates" not in spec
    one = container(objects, "StatefulSet", "trimtab-actuator")
    assert one["env"] == [
        {"name": "TRIMTAB_ACTUATOR_STORE", "valueFrom": {"secretKeyRef": {"name": "store", "key": "url"}}}
    ]
    assert not any(argument.startswith("--store") for argument in one["args"])
    # Rights that only the cloud kwok needs are not granted for another.
    assert ("ClusterRole", "trimtab-actuator-kwok") not in kinds(objects)


@pytest.mark.parametrize(
    ("namespace", "kind"),
    [pytest.param("", "ClusterRole", id="all namespaces"), pytest.param("machines", "Role", id="one namespace")],
)
def test_the_cloud_clusterapi_is_granted_exactly_what_it_asks_for(namespace: str, kind: str) -> None:
    objects = rendered('actuator.cloud="clusterapi"', f'actuator.clusterApi.namespace="{namespace}"', "nodeGroups=[]")
    role = named(objects, kind, "trimtab-actuator-clusterapi")
    binding = named(objects, f"{kind}Binding", "trimtab-actuator-clusterapi")
    user = "system:serviceaccount:trimtab:trimtab-actuator"
    asked = {
        Grant(one.group, one.resource, verb, namespace)
        for one in rules_of(User.CLUSTER_API, namespace)
        for verb in one.verbs
    }
    assert grants_by_account([role, binding]) == {user: asked}
    arguments = container(objects, "StatefulSet", "trimtab-actuator")["args"]
    assert "--cloud=clusterapi" in arguments
    assert (f"--capi-namespace={namespace}" in arguments) == bool(namespace)
    assert {one.split("=")[0] for one in arguments if one.startswith("--")} <= known_options("actuator")
    # The cloud has the groups; the ones of the values would be others.
    assert not any("--node-groups" in one for one in container(objects, "Deployment", "trimtab-loop")["args"])


def test_where_another_cluster_manages_this_one_its_kubeconfig_is_mounted_and_no_right_is_granted_here() -> None:
    values = '{"cluster":"blue","kubeconfigSecret":"management","kubeconfigKey":"admin.conf"}'
    objects = rendered('actuator.cloud="clusterapi"', f"actuator.clusterApi={values}")
    assert not any("clusterapi" in name for _, name in kinds(objects))
    one = container(objects, "StatefulSet", "trimtab-actuator")
    assert {"--capi-cluster=blue", "--capi-kubeconfig=/management/admin.conf"} <= set(one["args"])
    assert {"name": "management", "mountPath": "/management", "readOnly": True} in one["volumeMounts"]
    volumes = named(objects, "StatefulSet", "trimtab-actuator")["spec"]["template"]["spec"]["volumes"]
    (secret,) = [volume["secret"] for volume in volumes if volume["name"] == "management"]
    assert secret["secretName"] == "management"


def test_tokens_in_place_of_certificates() -> None:
    objects = rendered("access.clientCertificates=false", 'access.tokenAudience="trimtab"')
    for kind, name in (("Deployment", "trimtab-planner"), ("StatefulSet", "trimtab-actuator")):
        arguments = container(objects, kind, name)["args"]
        assert "--token-audience=trimtab" in arguments
        assert not any(one.startswith("--tls-client-ca") for one in arguments)
    loop = named(objects, "Deployment", "trimtab-loop")["spec"]["template"]["spec"]
    (token,) = [one["projected"]["sources"] for one in loop["volumes"] if one["name"] == "token"]
    assert token[0]["serviceAccountToken"]["audience"] == "trimtab"
    assert {"name": "TRIMTAB_TOKEN_FILE", "value": "/token/token"} in loop["containers"][0]["env"]
    assert ("ClusterRoleBinding", "trimtab-token-reviews") in kinds(objects)


def rights_for(service: str) -> set[str]:
    """All rights that the calls of a service need."""
    return {right.value for method, right in RIGHT_OF_METHOD.items() if method.split("/")[1].endswith(service)}


def certificates_of(objects: list[Json]) -> dict[str, Json]:
    """The specs of cert-manager's Certificates, by name."""
    return {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == "Certificate"}


def test_cert_manager_makes_the_certificates_that_our_command_makes() -> None:
    callers = '["operator","cluster-autoscaler","balancer","metrics"]'
    objects = rendered("tls.certManager.enabled=true", f"tls.certManager.callers={callers}", namespace="elsewhere")
    specs = certificates_of(objects)
    authority = specs.pop("trimtab-ca")
    assert (authority["isCA"], authority["issuerRef"]["name"]) == (True, "trimtab-self-signed")
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert named(objects, "Issuer", "trimtab-ca")["spec"] == {"ca": {"secretName": authority["secretName"]}}
    assert specs.keys() == {f"trimtab-{part.name}" for part in PARTS}
    for part in PARTS:
        spec = specs[f"trimtab-{part.name}"]
        assert spec["secretName"] == f"trimtab-{part.name}-tls"
        assert spec["uris"] == [part.identity]
        assert {*spec.get("dnsNames", ()), *spec.get("ipAddresses", ())} == set(part.hosts("elsewhere"))
        assert ("server auth" in spec["usages"]) == bool(part.service)
        assert spec["issuerRef"]["name"] == "trimtab-ca"
    assert certificates_of(rendered()) == {}


def test_an_issuer_that_is_there_signs_what_is_mounted_and_no_authority_is_made() -> None:
    issuer = '{"name":"ours","kind":"ClusterIssuer"}'
    objects = rendered(
        "tls.certManager.enabled=true", f"tls.certManager.issuerRef={issuer}", "planner.expander.enabled=true",
        'tls.certManager.dnsNames={"planner":["planner.example"]}', 'tls.secrets.loop="own"',
        "monitoring.serviceMonitor.enabled=true", 'monitoring.serviceMonitor.tlsSecret="scraper"',
    )  # fmt: skip
    specs = certificates_of(objects)
    assert "trimtab-ca" not in specs
    assert not any(item["kind"] == "Issuer" for item in objects)
    assert all(spec["issuerRef"] == {"name": "ours", "kind": "ClusterIssuer"} for spec in specs.values())
    assert {"planner.example", "trimtab-expander.trimtab.svc"} <= set(specs["trimtab-planner"]["dnsNames"])
    made = {spec["secretName"] for spec in specs.values()}
    pods = [item["spec"]["template"]["spec"] for item in objects if "template" in item.get("spec", ())]
    mounted = {one["secret"]["secretName"] for pod in pods for one in pod["volumes"] if one["name"] == "tls"}
    assert made == {*mounted, "trimtab-operator-tls", "scraper"}
    assert "own" in mounted


def test_the_expander_port_is_open_if_it_is_configured_and_the_policy_allows_it() -> None:
    objects = rendered("planner.expander.enabled=true")
    assert "--expander-address=0.0.0.0:9001" in container(objects, "Deployment", "trimtab-planner")["args"]
    policy = yaml.safe_load(named(objects, "ConfigMap", "trimtab-policy")["data"]["policy.yaml"])
    assert set(policy["anonymous"]) == rights_for("grpcplugin.Expander")
    rules = named(objects, "NetworkPolicy", "trimtab-planner")["spec"]["ingress"]
    (sources,) = [rule["from"] for rule in rules if rule["ports"] == [{"port": "expander"}]]
    assert sources[0]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "cluster-autoscaler"}
    plain = rendered()
    assert "anonymous" not in named(plain, "ConfigMap", "trimtab-policy")["data"]["policy.yaml"]
    assert ("Service", "trimtab-expander") not in kinds(plain)


def test_a_cluster_autoscaler_reaches_the_actuator_that_is_its_cloud_and_has_a_certificate_and_its_rights() -> None:
    objects = rendered("actuator.serveExternalGrpc.enabled=true", "tls.certManager.enabled=true")
    assert "--serve-externalgrpc" in container(objects, "StatefulSet", "trimtab-actuator")["args"]
    assert certificates_of(objects)["trimtab-cluster-autoscaler"]["secretName"] == "trimtab-cluster-autoscaler-tls"
    policy = yaml.safe_load(named(objects, "ConfigMap", "trimtab-policy")["data"]["policy.yaml"])
    identity = next(part.identity for part in PARTS if part.name == "cluster-autoscaler")
    assert policy["callers"][-1] == {"identities": [identity], "rights": ["read", "delete", "grow"]}
    assert set(policy["callers"][-1]["rights"]) == rights_for("externalgrpc.CloudProvider")
    peer = {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "cluster-autoscaler"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    }
    ingress = {
        name: named(objects, "NetworkPolicy", f"trimtab-{name}")["spec"]["ingress"] for name in ("planner", "actuator")
    }
    assert {"ports": [{"port": "grpc"}], "from": [peer]} in ingress["actuator"]
    assert not any(peer in rule["from"] for rule in ingress["planner"])
    plain = rendered("tls.certManager.enabled=true")
    assert "trimtab-cluster-autoscaler" not in certificates_of(plain)
    assert "cluster-autoscaler" not in named(plain, "ConfigMap", "trimtab-policy")["data"]["policy.yaml"]
    assert not any(
        peer in rule["from"] for rule in named(plain, "NetworkPolicy", "trimtab-actuator")["spec"]["ingress"]
    )


def test_the_page_of_the_loop_is_served_if_it_is_configured_to_those_whom_the_policy_lets_read() -> None:
    plain = rendered()
    assert len(named(plain, "Deployment", "trimtab-loop")["spec"]["template"]["spec"]["containers"]) == 1
    peer = {"podSelector": {"matchLabels": {"app": "proxy"}}}
    callers = f"loop.web.callersFrom=[{json.dumps(peer)}]"
    objects = rendered("loop.web.enabled=true", callers)
    loop = container(objects, "Deployment", "trimtab-loop", 1)
    assert {"--web=0.0.0.0:9300", "--policy=/policy/policy.yaml"} <= set(loop["args"])
    assert {"name": "web", "containerPort": 9300} in loop["ports"]
    assert {"name": "policy", "mountPath": "/policy", "readOnly": True} in loop["volumeMounts"]
    ingress = named(objects, "NetworkPolicy", "trimtab-loop")["spec"]["ingress"]
    assert ingress == [{"ports": [{"port": "web"}], "from": [peer]}]
    assert named(plain, "NetworkPolicy", "trimtab-loop")["spec"]["ingress"] == []


def test_without_an_actuator_no_cloud_is_required() -> None:
    found = yaml.safe_load_all(helm("template", "release", CHART, "--set", "actuator.enabled=false"))
    assert ("StatefulSet", "trimtab-actuator") not in kinds([item for item in found if item])


def test_a_cloud_that_knows_its_groups_needs_no_other_value() -> None:
    found = yaml.safe_load_all(helm("template", "release", CHART, "--set", "actuator.cloud=aws"))
    objects = [item for item in found if item]
    assert "--cloud=aws" in container(objects, "StatefulSet", "trimtab-actuator")["args"]
    assert not any("--node-groups" in one for one in container(objects, "Deployment", "trimtab-loop")["args"])


def test_the_values_of_the_page_on_installation_are_all_that_a_cluster_needs(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "my-values.yaml").write_text(example)
    helm("template", "release", CHART, "--values", tmp_path / "my-values.yaml")


@pytest.mark.parametrize("part", ["planner", "actuator", "loop"])
def test_pods_reach_names_at_the_ports_of_dns_and_else_the_outgoing_ports_alone(part: str) -> None:
    values = ("networkPolicy.dnsPorts=[5353]", "networkPolicy.outgoingPorts=[8443]", 'access.tokenAudience="trimtab"')
    policy = named(rendered(*values), "NetworkPolicy", f"trimtab-{part}")["spec"]
    assert policy["egress"][:2] == [
        {"ports": [{"port": 5353, "protocol": "UDP"}, {"port": 5353}]}, {"ports": [{"port": 8443}]}
    ]  # fmt: skip
    others = [rule["ports"] for rule in policy["egress"][2:]]
    assert others == ([[{"port": 9000}]] if part == "loop" else [])
    # Values kept from a chart that had no such value: not any port.
    kept = named(rendered(*values[1:], "networkPolicy.dnsPorts=null"), "NetworkPolicy", f"trimtab-{part}")["spec"]
    assert kept["egress"][0]["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53}]
    # Without tokens to review, the planner reaches nothing.
    assert named(rendered(), "NetworkPolicy", "trimtab-planner")["spec"]["egress"] == []


def test_no_network_policy_is_made_where_they_are_off() -> None:
    assert "NetworkPolicy" not in {kind for kind, _ in kinds(rendered("networkPolicy.enabled=false"))}


def test_steering_in_place_of_the_loop() -> None:
    objects = rendered("loop.enabled=false", "steer.enabled=true", "actuator.enabled=false", 'clusterName="prod"')
    arguments = container(objects, "Deployment", "trimtab-steer")["args"]
    options = {one.split("=")[0] for one in arguments if one.startswith("--")}
    assert options <= known_options("run")
    assert "--cluster-name=prod" in arguments
    assert not any("loop" in name or "actuator" in name for _, name in kinds(objects))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        pytest.param(["planner.replica=3"], "replica", id="an unknown value"),
        pytest.param(['planner.replicas="3"'], "planner/replicas", id="a text for a number"),
        pytest.param(["actuator.replicas=2"], "urlSecret", id="two actuators without a store that they share"),
        pytest.param([], "actuator.cloud is required", id="no cloud"),
        pytest.param(['actuator.cloud="kwok"'], "nodeGroups is required", id="kwok without groups"),
        pytest.param(['actuator.cloud="gcp"'], "actuator/cloud", id="a cloud that there is not"),
        pytest.param(['actuator.clusterApi.namespace="A"'], "clusterApi/namespace", id="a namespace that is none"),
        pytest.param(["access.clientCertificates=false"], "tokenAudience", id="callers that nobody would know"),
        pytest.param(
            ["actuator.serveExternalGrpc.enabled=true", "access.clientCertificates=false", 'access.tokenAudience="a"'],
            "clientCertificates",
            id="a Cluster Autoscaler that nobody would know",
        ),
        pytest.param(['image.digest="latest"'], "image/digest", id="a digest that is none"),
        pytest.param(["steer.enabled=true"], "not", id="steering beside the loop"),
        pytest.param(['access.policy.callers=[{"identities":["a"],"rights":["fly"]}]'], "rights", id="no such right"),
        pytest.param(['tls.certManager.issuerRef={"kind":"Issuer"}'], "name", id="an issuer without name"),
        pytest.param(['tls.certManager.duration="a month"'], "duration", id="a duration that is none"),
        pytest.param(['planner.options=["a b"]'], "planner/options", id="an option that is none"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_place(values: list[str], told: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm("template", "release", CHART, *flags(values))
    assert told in str(refused.value)
