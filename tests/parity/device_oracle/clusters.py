"""Random clusters with devices, and pods with claims, as documents of the device oracle.

Small and dense: few names, so that requests meet, exhaust and contradict each other. Valid for the API server except
where `odd` draws something that it would refuse or that is in transition: missing slices, old generations, duplicate
names.
"""

from random import Random
from typing import Any

FEATURES = {
    "AdminAccess": True, "ConsumableCapacity": True, "DeviceBindingAndStatus": True, "DeviceTaints": True,
    "PartitionableDevices": True, "PrioritizedList": True,
}  # fmt: skip
DRIVERS = ("gpu.example.com", "nic.example.com")
ZONES = ("a", "b")
CONDITION = "example.com/attached"
EXPRESSIONS = (
    'device.driver == "gpu.example.com"',
    'device.attributes[device.driver].model == "a100"',
    'device.attributes[device.driver].?model.orValue("") == "a100"',
    "device.attributes[device.driver].?numa.orValue(0) in [0, 1]",
    "size(device.attributes[device.driver]) > 1",
    'device.driver.startsWith("gpu") || device.driver.matches("^nic[.]")',
    '["model", "numa"].exists(one, one in device.attributes[device.driver])',
    'device.attributes["gpu.example.com"].?model.orValue("a100") == "a100"',
    '"model" in device.attributes[device.driver]',
    "has(device.attributes[device.driver].numa) && device.attributes[device.driver].numa == 1",
    "has(device.attributes[device.driver].version) && "
    'device.attributes[device.driver].version.isGreaterThan(semver("1.0.0-rc.0"))',
    'device.capacity[device.driver].?memory.orValue(quantity("40Gi")).compareTo(quantity("40Gi")) >= 0',
    'device.capacity[device.driver].memory.isLessThan(quantity("81Gi"))',
    '!has(device.capacity[device.driver].memory) || device.capacity[device.driver].memory == quantity("80Gi")',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    "cel.bind(d, device.attributes[device.driver], has(d.healthy) && d.healthy)",
    "true",
)


class Clusters:
    """Draws documents; each seed gives one."""

    local_chance = 0.7
    """How often the pools of a driver are those of nodes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.version = self.random.choice((36, 36, 37))
        self.with_counters = self.chance(0.35)
        self.with_shares = self.chance(0.35)
        self.with_odd = self.chance(0.2)
        self.nodes = [f"n{at}" for at in range(self.random.choice((1, 2, 2, 3)))]

    def chance(self, probability: float) -> bool:
        """Draw true with a probability."""
        return self.random.random() < probability

    def odd(self) -> bool:
        """Draw whether something is wrong; seldom, and in few documents at all."""
        return self.with_odd and self.chance(0.25)

    def document(self, name: str) -> dict[str, Any]:
        """Return a cluster and pods."""
        slices = self.slices()
        features = dict(FEATURES)
        if self.chance(0.1):
            features[self.random.choice(sorted(features))] = False
        return {
            "name": name,
            "features": features,
            "nodes": [{"metadata": {"name": one, "labels": {"zone": self.random.choice(ZONES)}}} for one in self.nodes],
            "classes": [self.device_class(f"c{at}") for at in range(3)],
            "slices": slices,
            "allocated": self.allocated(slices),
            "pods": [self.pod(number) for number in range(self.random.randint(1, 5))],
        }

    def device_class(self, name: str) -> dict[str, Any]:
        """Return a class that selects by driver, by something else, or everything."""
        expressions = self.random.choice(((), EXPRESSIONS[:1], (self.random.choice(EXPRESSIONS),)))
        return {
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": one}} for one in expressions]},
        }

    def slices(self) -> list[dict[str, Any]]:
        """Return the slices of one to three pools for each driver."""
        found: list[dict[str, Any]] = []
        for driver in DRIVERS[: self.random.randint(1, 2)]:
            local = self.chance(self.local_chance)
            for pool in self.nodes if local else [f"p{at}" for at in range(self.random.randint(1, 2))]:
                # Up to 1.36 pools of one name share their counters across drivers, so names may be equal.
                name = pool if self.chance(0.5) else f"{driver[:3]}-{pool}"
                found += self.pool(driver, name, pool if local else None)
        self.random.shuffle(found)
        for at, one in enumerate(found):
            one["metadata"] = {"name": f"s{at:02}"}
        return found

    def pool(self, driver: str, name: str, node: str | None) -> list[dict[str, Any]]:
        """Return the slices of one pool, local to a node or for several."""
        counters = self.with_counters and self.chance(0.7)
        count = self.random.randint(1, 2)
        generation = self.random.randint(1, 2)
        names = [f"d{at}" for at in range(8)]
        slices = []
        for _ in range(count):
            devices = [
                self.device(one, driver, counters)
                for one in sorted(self.random.sample(names, self.random.randint(1, 3)))
            ]
            if not self.odd():
                names = [one for one in names if all(one != device["name"] for device in devices)]
            spec: dict[str, Any] = {"devices": devices, **self.node_selection(node, devices)}
            slices.append(spec)
        if counters:
            sets = [self.counter_set(f"set{at}") for at in range(2)]
            where = {"nodeName": node} if node else {"allNodes": True}
            slices.append({"sharedCounters": sets + (sets[:1] if self.odd() else []), **where})
        total = len(slices) + (1 if self.odd() else 0)
        out = []
        for one in slices:
            own = generation - 1 if self.odd() else generation
            pool = {"name": name, "generation": own, "resourceSliceCount": total}
            out.append({"spec": {"driver": driver, "pool": pool, **one}})
        return out

    def node_selection(self, node: str | None, devices: list[dict[str, Any]]) -> dict[str, Any]:
        """Return who reaches a slice; where each device says it, the devices get it."""
        if node is not None:
            return {"nodeName": node}
        kind = self.random.choice(("allNodes", "selector", "devices"))
        if kind == "allNodes":
            return {"allNodes": True}
        if kind == "selector":
            return {"nodeSelector": self.selector()}
        for one in devices:
            one.update(
                self.random.choice((
                    {"nodeName": self.random.choice(self.nodes)}, {"allNodes": True}, {"nodeSelector": self.selector()},
                ))
            )  # fmt: skip
        return {"perDeviceNodeSelection": True}

    def selector(self) -> dict[str, Any]:
        """Return a node selector of one term."""
        expression = self.random.choice((
            {"key": "zone", "operator": "In", "values": [self.random.choice(ZONES)]},
            {"key": "zone", "operator": "Exists"},
            {"key": "zone", "operator": "NotIn", "values": [self.random.choice(ZONES)]},
        ))  # fmt: skip
        return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}

    def counter_set(self, name: str) -> dict[str, Any]:
        """Return a set of two counters."""
        return {
            "name": name,
            "counters": {
                "memory": {"value": f"{self.random.randint(1, 8) * 10}Gi"},
                "slots": {"value": self.number(1, 6)},
            },
        }

    def number(self, low: int, high: int) -> str:
        """Return a number as a quantity."""
        return str(self.random.randint(low, high))

    def device(self, name: str, driver: str, counters: bool) -> dict[str, Any]:
        """Return a device; those of one draw are often alike."""
        attributes: dict[str, Any] = {}
        prefix = f"{driver}/" if self.chance(0.3) else ""
        if self.chance(0.8):
            attributes[f"{prefix}model"] = {"string": self.random.choice(("a100", "t4"))}
        if self.chance(0.6):
            attributes["numa"] = {"int": self.random.randint(0, 1)}
        if self.chance(0.3):
            attributes["healthy"] = {"bool": self.chance(0.7)}
        if self.chance(0.3):
            attributes["version"] = {"version": self.random.choice(("1.2.0", "0.9.0", "1.0.0-rc.1"))}
        if self.chance(0.3):
            attributes["example.com/rack"] = self.random.choice(({"string": "r1"}, {"string": "r2"}, {"int": 1}))
        found: dict[str, Any] = {"name": name, "attributes": attributes}
        shares = self.with_shares and self.chance(0.5)
        if shares:
            found["allowMultipleAllocations"] = True
        if self.chance(0.7):
            found["capacity"] = self.capacities(shares)
        if counters and self.chance(0.8):
            found["consumesCounters"] = self.consumption()
        if self.chance(0.1):
            effect = self.random.choice(("NoSchedule", "NoExecute", "None"))
            found["taints"] = [{"key": "example.com/t", "value": self.random.choice(("", "x")), "effect": effect}]
        if self.chance(0.08):
            found["bindingConditions"] = [CONDITION]
            found["bindingFailureConditions"] = [f"{CONDITION}-failed"]
            found["bindsToNode"] = self.chance(0.5)
        return found

    def consumption(self) -> list[dict[str, Any]]:
        """Return what a device consumes of one or two counter sets."""
        sets = ["set0"] if self.chance(0.7) else ["set0", "set1"]
        if self.odd():
            sets = ["set7"]
        return [
            {
                "counterSet": one,
                "counters": {
                    "memory": {"value": f"{self.random.randint(0, 3) * 10}Gi"},
                    "slots": {"value": self.number(0, 2)},
                },
            }
            for one in sets
        ]

    def capacities(self, shares: bool) -> dict[str, Any]:
        """Return capacities, of shared devices with policies that the API server accepts."""
        found: dict[str, Any] = {"memory": {"value": self.random.choice(("40Gi", "80Gi"))}}
        if shares and self.chance(0.8):
            policy = self.random.choice((
                {"default": "10Gi", "validRange": {"min": "10Gi", "max": "40Gi", "step": "10Gi"}},
                {"default": "5Gi", "validRange": {"min": "5Gi"}},
                {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]},
                {"default": "10Gi", "validRange": {"min": "10Gi", "max": "30Gi"}},
            ))  # fmt: skip
            found["memory"]["requestPolicy"] = policy
        if self.chance(0.3):
            found["cores"] = {"value": self.number(2, 8)}
            if shares:
                found["cores"]["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "1"}}
        return found

    def allocated(self, slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return devices in use: whole ones, and shares."""
        found = []
        for one in slices:
            spec = one["spec"]
            for device in spec.get("devices", ()):
                if not self.chance(0.12):
                    continue
                result = {
                    "request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"],
                }  # fmt: skip
                if device.get("allowMultipleAllocations"):
                    result["shareID"] = ""
                    if device.get("capacity"):
                        amounts = {"memory": self.random.choice(("10Gi", "20Gi"))}
                        result["consumedCapacity"] = amounts | ({"cores": "1"} if "cores" in device["capacity"] else {})
                elif self.chance(0.15):
                    result["adminAccess"] = True
                found.append(result)
        return found

    def pod(self, number: int) -> list[dict[str, Any]]:
        """Return the claims of a pod."""
        return [self.claim(f"claim{number}-{at}") for at in range(self.random.choice((1, 1, 1, 1, 2)))]

    def claim(self, name: str) -> dict[str, Any]:
        """Return a claim."""
        requests = [self.request(f"r{at}") for at in range(self.random.choice((1, 1, 1, 2, 3)))]
        devices: dict[str, Any] = {"requests": requests}
        if self.chance(0.3):
            devices["constraints"] = [self.constraint(requests) for _ in range(self.random.choice((1, 1, 2)))]
        return {"metadata": {"name": name}, "spec": {"devices": devices}}

    def constraint(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a constraint for some or all requests."""
        attribute = self.random.choice((
            "gpu.example.com/model", "gpu.example.com/numa", "nic.example.com/numa", "example.com/rack",
        ))  # fmt: skip
        names = [one["name"] for one in requests]
        names += [f"{one['name']}/{sub['name']}" for one in requests for sub in one.get("firstAvailable", ())]
        some = self.random.sample(names, self.random.randint(1, len(names))) if self.chance(0.4) else []
        return {
            "requests": some,
            self.random.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): attribute,
        }

    def request(self, name: str) -> dict[str, Any]:
        """Return a request, with alternatives or without."""
        if self.chance(0.2):
            subs = [{"name": f"a{at}", **self.exact(False)} for at in range(self.random.randint(1, 3))]
            return {"name": name, "firstAvailable": subs}
        return {"name": name, "exactly": self.exact(True)}

    def exact(self, admin: bool) -> dict[str, Any]:
        """Return the content of a request."""
        found: dict[str, Any] = {"deviceClassName": self.random.choice(("c0", "c1", "c2"))}
        if self.odd() and self.chance(0.3):
            found["deviceClassName"] = "missing"
        if self.chance(0.07):
            found["allocationMode"] = "All"
        else:
            # The last ones meet the limit of 32.
            found |= {
                "allocationMode": "ExactCount",
                "count": self.random.choice((1,) * 16 + (2, 2, 2, 2, 3, 4, 12, 33)),
            }
        if self.chance(0.25):
            found["selectors"] = [{"cel": {"expression": self.random.choice(EXPRESSIONS)}}]
        if self.chance(0.15):
            found["tolerations"] = [
                self.random.choice((
                    {"operator": "Exists"},
                    {"key": "example.com/t", "operator": "Equal", "value": "x"},
                    {"key": "example.com/t", "operator": "Exists", "effect": "NoExecute"},
                ))
            ]  # fmt: skip
        if admin and self.chance(0.08):
            found["adminAccess"] = True
        if self.chance(0.3 if self.with_shares else 0.1):
            amount = self.random.choice(("1Gi", "10Gi", "15Gi", "20Gi", "41Gi", "80Gi"))
            found["capacity"] = {"requests": {"memory": amount} | ({"cores": "2"} if self.chance(0.2) else {})}
        return found
