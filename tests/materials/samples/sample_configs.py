"""The configs that the sample alone is enough for: those made with a tagger or WordNet have tests of their own."""

from cxc_eccv.builders.config import dataset_configs


def sample_configs():
    return {name: config for name, config in dataset_configs().items() if config.made_with is None}
