"""The share of its devices that is in use on each node: of the pool of its own with the largest share.

Of a pool whose devices consume shared counters, the mean over its counter sets of the largest share of a counter. Pools
that several nodes may reach count for none. Source: Cluster Autoscaler, simulator/dynamicresources/utils.
"""

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import results_in_use
from trimtab.planner.snapshot.columns import DeviceColumns, Float64, Int32, Int64, Snapshot


def device_shares(snapshot: Snapshot) -> Float64:
    """Return the shares : float64[N], NaN where a node has no devices of its own. O(slices + results)."""
    devices, count = snapshot.devices, len(snapshot.nodes.name)
    shares = np.full(count, np.nan)
    slices, strings = devices.slices, devices.strings
    if not len(slices.driver):
        return shares
    index_of = {name: node for node, name in enumerate(snapshot.nodes.name)}
    node_of_string = np.array([index_of.get(text, -1) if text else -1 for text in strings], np.int64)
    node = node_of_string[slices.node]
    pool = _pool(devices, slices.driver, slices.pool)
    sizes = np.array([*(len(device_set.names) for device_set in devices.device_sets), 0], np.int64)
    pools, of_slice = np.unique(pool, return_inverse=True)
    total = np.bincount(of_slice, weights=sizes[slices.device_set], minlength=len(pools))
    owner = np.full(len(pools), -1, np.int64)
    owner[of_slice] = node
    shared = np.zeros(len(pools), np.bool_)
    shared[of_slice[node < 0]] = True
    used = _used(devices, pools)
    share = np.divide(used, total, out=np.zeros(len(pools)), where=total > 0)
    for at in np.unique(of_slice[slices.counter_set >= 0]).tolist():
        share[at] = _counter_share(devices, int(pools[at]), np.flatnonzero(of_slice == at))
    counted = (owner >= 0) & ~shared & (total > 0)
    largest = np.full(count, -1.0)
    np.maximum.at(largest, owner[counted], share[counted])
    return np.where(largest < 0, np.nan, largest)


def _pool(devices: DeviceColumns, driver: Int32, pool: Int32) -> Int64:
    """Return one number for each pair of driver and pool."""
    number: Int64 = driver.astype(np.int64) * len(devices.strings) + pool
    return number


def _used(devices: DeviceColumns, pools: Int64) -> Float64:
    """Return how many devices of each pool are in use; one that is shared counts once."""
    rows, claims = results_in_use(devices), devices.claims
    pool = _pool(devices, claims.result_driver[rows], claims.result_pool[rows])
    at = np.searchsorted(pools, pool)
    is_published = (at < len(pools)) & (pools[np.minimum(at, len(pools) - 1)] == pool)
    distinct = np.unique(at[is_published] * len(devices.strings) + claims.result_device[rows][is_published])
    counts: Float64 = np.bincount(distinct // max(len(devices.strings), 1), minlength=len(pools)).astype(np.float64)
    return counts


def _counter_share(devices: DeviceColumns, pool: int, slices: Int64) -> float:
    """Return the mean over the counter sets of a pool of the largest share of a counter."""
    columns, claims = devices.slices, devices.claims
    rows = results_in_use(devices)
    of_pool = rows[_pool(devices, claims.result_driver[rows], claims.result_pool[rows]) == pool]
    names = {devices.strings[at] for at in claims.result_device[of_pool].tolist()}
    totals = {
        row.name: dict(row.counters)
        for at in slices.tolist()
        if columns.counter_set[at] >= 0
        for row in devices.counter_sets[columns.counter_set[at]]
    }
    consumed: dict[tuple[str, str], int] = {}
    for at in slices.tolist():
        if columns.device_set[at] < 0:
            continue
        devices_of = devices.device_sets[columns.device_set[at]]
        for name, content in zip(devices_of.names, devices_of.contents, strict=True):
            for counter_set, amounts in content.consumes_counters if name in names else ():
                for counter, amount in amounts:
                    consumed[counter_set, counter] = consumed.get((counter_set, counter), 0) + amount
    largest = [
        max((consumed.get((name, counter), 0) / amount for counter, amount in amounts.items() if amount), default=0.0)
        for name, amounts in totals.items()
    ]
    return sum(largest) / len(largest) if largest else 0.0
