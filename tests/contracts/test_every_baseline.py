"""What holds for every baseline without training: in the package, and in a copy with one more."""

from dataclasses import fields

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.untrained import Inputs, baselines

pytestmark = [
    pytest.mark.parametrize("name", baselines()),
]


def test_baseline_says_what_it_is(name):
    baseline = baselines()[name]
    assert baseline.summary
    assert not baseline.summary.endswith(".")
    assert set(baseline.takes) <= {field.name for field in fields(Inputs)}


def test_scores_are_the_same_again(name, sample_library):
    try:
        report, _ = baselines()[name](sample_library.split(), Inputs())
    except InvalidOption as error:
        pytest.skip(f"it needs an input: {error}")
    assert report.scores
    assert all(np.isfinite(value) for value in report.scores.values())
    assert baselines()[name](sample_library.split(), Inputs())[0].scores == report.scores


def test_input_it_does_not_take_is_refused(name, sample_library):
    others = {field.name for field in fields(Inputs)} - set(baselines()[name].takes)
    for option in others:
        with pytest.raises(InvalidOption, match=f"does not take --{option.replace('_', '-')}"):
            baselines()[name](sample_library.split(), Inputs(**{option: "x"}))
