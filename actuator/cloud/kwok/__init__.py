"""A cloud whose machines are Node objects that kwok brings to life: for demos and tests on a real control plane."""
