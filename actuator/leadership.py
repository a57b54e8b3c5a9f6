"""The error of an actuator that may not act because another one leads. Decides nothing."""


class NotLeaderError(Exception):
    """This process does not lead (any more); `leader` is the identity of the leader, as last read."""

    def __init__(self, leader: str = "") -> None:
        super().__init__(
            f"this actuator does not lead; {f'ask {leader}' if leader else 'there is no leader now; try again'}"
        )
        self.leader = leader
