"""A real Kubernetes cluster behind the interface of `actuator.kube.cluster`.

Decides how taints are patched (only if the taints are still those that were read), how an eviction is asked for, and
what is tried again at once. Never decides which node or pod. Durations in seconds.
"""

from collections.abc import Callable, Mapping, Sequence

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from actuator.kube.api import Api, Call, ConflictError
from actuator.kube.cluster import HARD_TAINT_KEY, NodeView, NotFoundError, PodView, RefusedError, Taint
from actuator.kube.objects import Node, NodeList, NodeTaint, PodList, node_view, pod_view, read
from actuator.kube.settings import KubeSettings
from clients.kubernetes_api.api import JSON_PATCH, Json

PAGE = 500
# Asks for what the server has in memory, where pods are kept by node; without, older servers read every pod from etcd.
# Source: Kubernetes API concepts, "Semantics for get and list".
IN_MEMORY = {"resourceVersion": "0"}
# Others write nodes too (kubelet, controllers): so often is a patch made anew.
PATCH_ATTEMPTS = 8


class KubeCluster:
    """A `Cluster` (see `actuator.kube.cluster`)."""

    def __init__(self, api: Api, settings: KubeSettings | None = None) -> None:
        self._api = api
        self._settings = settings or KubeSettings()

    def get_node(self, name: str, recent: bool = False) -> NodeView:
        """One node; `recent` = what the server has in memory is enough."""
        return node_view(self._get(name, IN_MEMORY if recent else {}))

    def list_nodes(self) -> Sequence[NodeView]:
        """All nodes, sorted by name."""
        found: list[NodeView] = []
        page = ""
        while True:
            query = {"limit": str(PAGE)} | ({"continue": page} if page else {})
            call = Call("GET", "/api/v1/nodes", query, timeout_s=self._settings.list_timeout_s)
            nodes: NodeList = read(NodeList, self._api.call(call))
            found.extend(node_view(node) for node in nodes.items or ())
            page = nodes.metadata.next_page
            if not page:
                return sorted(found, key=lambda node: node.name)

    def add_taint(self, node: str, taint: Taint) -> bool:
        """Add a taint, and cordon the node when it is the hard one and that is wanted."""

        def change(found: Node) -> list[Json] | None:
            taints = found.spec.taints or []
            if any(one.key == taint.key for one in taints):
                return None
            cordon = self._settings.cordon and taint.key == HARD_TAINT_KEY
            return _patch(found, [*taints, NodeTaint(taint.key, taint.effect, taint.value)], True if cordon else None)

        return self._change(node, change)

    def remove_taint(self, node: str, key: str) -> bool:
        """Take a taint away, and what came with it."""

        def change(found: Node) -> list[Json] | None:
            taints = found.spec.taints or []
            left = [one for one in taints if one.key != key]
            if len(left) == len(taints):
                return None
            uncordon = self._settings.cordon and key == HARD_TAINT_KEY
            return _patch(found, left, False if uncordon else None)

        return self._change(node, change)

    def list_pods(self, node: str, recent: bool = False) -> Sequence[PodView]:
        """The pods bound to a node, sorted by namespace and name; `recent` as for `get_node`."""
        query = {"fieldSelector": f"spec.nodeName={node}"} | (IN_MEMORY if recent else {})
        call = Call("GET", "/api/v1/pods", query)
        pods: PodList = read(PodList, self._api.call(call))
        return sorted((pod_view(pod) for pod in pods.items or ()), key=lambda pod: (pod.namespace, pod.name))

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Ask for the eviction of exactly this pod; asked once, since whether to ask again is the drain's business."""
        options: Json = {"preconditions": {"uid": pod.uid}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        try:
            self._api.call(Call("POST", path, body=eviction, repeat=False))
        except ConflictError as error:
            # Another pod has the name by now, or another writer was quicker: then it is asked for again.
            if "uid" in str(error).lower():
                raise NotFoundError(str(error)) from error
            raise

    def delete_node(self, name: str) -> None:
        """Delete a node object."""
        try:
            self._api.call(Call("DELETE", f"/api/v1/nodes/{name}"))
        except NotFoundError:
            return

    def _get(self, name: str, query: Mapping[str, str] = {}) -> Node:
        found: Node = read(Node, self._api.call(Call("GET", f"/api/v1/nodes/{name}", query)))
        return found

    def _change(self, name: str, change: Callable[[Node], list[Json] | None]) -> bool:
        """Read, decide, patch; from the beginning when the node has changed in between. False = nothing to do."""

        def attempt() -> bool:
            patch = change(self._get(name))
            if patch is None:
                return False
            try:
                self._api.call(Call("PATCH", f"/api/v1/nodes/{name}", body=patch, content_type=JSON_PATCH))
            except RefusedError as error:
                # What a precondition that does not hold is answered with.
                if "test" in str(error) and "422" in str(error):
                    raise ConflictError(str(error)) from error
                raise
            return True

        retrying = Retrying(
            retry=retry_if_exception_type(ConflictError),
            stop=stop_after_attempt(PATCH_ATTEMPTS),
            wait=wait_random_exponential(0.02, 0.5),
            reraise=True,
        )
        return retrying(attempt)


def _patch(found: Node, taints: list[NodeTaint], unschedulable: bool | None) -> list[Json]:
    """A JSON patch that holds only for this very node while its taints are those that were read."""
    before = found.spec.taints
    if before:
        precondition = {"op": "test", "path": "/spec/taints", "value": before}
    else:
        precondition = {"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version}
    patch: list[Json] = [
        {"op": "test", "path": "/metadata/uid", "value": found.metadata.uid},
        precondition,
        {"op": "add", "path": "/spec/taints", "value": taints},
    ]
    if unschedulable is not None:
        patch.append({"op": "add", "path": "/spec/unschedulable", "value": unschedulable})
    return patch
