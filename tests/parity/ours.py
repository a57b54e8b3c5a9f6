"""Our side of the comparison: a thin adapter from plain Kubernetes objects to the planner's answers.

Takes objects as an API server lists them; never looks at what the scheduler said.
"""

from __future__ import annotations

import pytest

pytest.skip("the planner cannot be asked yet", allow_module_level=True)
