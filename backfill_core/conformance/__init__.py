"""What a target has to keep, as tests that whoever writes one runs over it with pytest.

    # test_my_target.py
    from backfill_core.conformance.suite import *

    @pytest.fixture
    def bench(): ...   # a `Bench` of yours, over an empty place

docs/writing-a-target.md shows one whole. Nothing else of the library imports this package, as pytest is needed.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("backfill_core.conformance.suite")
