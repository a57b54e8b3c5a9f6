"""The cloud `memory`: the machines of `actuator.simulated_cluster` as a cloud provider."""
