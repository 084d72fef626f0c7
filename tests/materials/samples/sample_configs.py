"""The configs that the sample alone is enough for: those made with tools, or of other data, have tests of their own."""

from cxc_eccv.builders.dataset_config import dataset_configs

BEYOND = {"flickr8k_human"}
"""Of data that the sample lacks."""


def sample_configs():
    return {
        name: config for name, config in dataset_configs().items() if config.made_with is None and name not in BEYOND
    }
