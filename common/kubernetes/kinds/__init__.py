"""The Kubernetes objects that a snapshot is made of, as declared structs: only the fields needed, the rest ignored.

Every field may be absent or null, as in Go, where both mean the zero value; what is required is checked where it is
used, with the object and the field named. Field names are those of the API in snake case. Times are aware datetimes.
Nothing here computes. `trimtab.common.kubernetes.registry` lists them.
"""
