"""Write the decision: the answer on the wire, with a reason for each node that stays."""
