"""The code that is saved with a model."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

from cxc_eccv.studies.trainers.portable import order_modules


def test_module_order_is_equal_in_every_process():
    """Dictionaries stand for sets, whose order differs between processes."""
    uses = {"a": dict.fromkeys("def").keys(), "b": dict.fromkeys("fed").keys(), "c": dict.fromkeys("ab").keys()}
    reverse = {name: dict.fromkeys(reversed(used)).keys() for name, used in reversed(uses.items())}
    ordered = order_modules(uses)
    assert ordered == order_modules(reverse)
    assert all(ordered.index(used) < ordered.index(name) for name in uses for used in uses[name])
