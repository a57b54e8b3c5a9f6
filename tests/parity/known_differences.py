"""Known differences from the scheduler: nasty case to reason. One that differs no more is noted in the summary of a
run, and does not fail."""

KNOWN = {
    "two_waiting_claims_compete_for_one_volume": (
        "a snapshot says of each claim where it can be bound, not that two claims of one pod need two volumes; "
        "only volumes made beforehand, such as local disks, are concerned"
    ),
    "a_resized_pod_taken_out_asks_for_what_its_spec_says": (
        "a snapshot has one amount for a pod, what it holds where it runs; only pods that are being resized, or were "
        "refused it, are concerned"
    ),
}
