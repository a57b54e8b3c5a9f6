"""How long a refusal holds while pods are only added, the most lasting first."""

FOR_GOOD, FOR_NOW, THIS_POD = 1, 2, 3
