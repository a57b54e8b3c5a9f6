"""A cloud whose machines are Node objects that kwok runs: for demos and tests on a real control plane."""
