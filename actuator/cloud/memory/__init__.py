"""The cloud `memory`: the machines of `trimtab.actuator.simulated_cluster` as a cloud provider."""
