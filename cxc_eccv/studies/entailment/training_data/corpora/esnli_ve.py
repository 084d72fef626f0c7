"""e-SNLI-VE: SNLI-VE with the labels of its development and test parts corrected, and explanations."""

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_entailment
from cxc_eccv.studies.entailment.training_data.corpora.snli_ve import photograph_pairs
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs

FILES = {"val": "esnlive_dev", "test": "esnlive_test"}


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """Pairs of the split of SNLI-VE, which is none of Karpathy's."""
    return photograph_pairs(library, library.read(FILES[split], read_entailment))


CORPUS = Corpus(
    name="esnli_ve",
    title="e-SNLI-VE",
    kinds=("visual", "multimodal"),
    rule="entailment against neutral and contradiction",
    groups=("esnlive", "flickr30k"),
    expected={"val": 14_339, "test": 14_740},
    pairs=pairs,
)
