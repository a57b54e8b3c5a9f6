"""A simulated Kubernetes cluster with its machines: scheduler, controllers, disruption controller, eviction API.

For the demo, tests and first steps. Like a real cluster it outlives the actuator's process: it has a separate database.
Its cloud provider is `trimtab.clients.simulation.cloud`.
"""
