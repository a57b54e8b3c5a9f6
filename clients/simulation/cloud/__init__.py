"""The cloud `memory`: the machines of `trimtab.clients.simulation.cluster` as a cloud provider."""
