from __future__ import annotations

import pytest

# The contract is no test module itself; its asserts shall explain themselves all the same.
pytest.register_assert_rewrite("tests.storage.contract")
