"""Access to a Kubernetes cluster: the interface, and the implementations that talk to a real one."""
