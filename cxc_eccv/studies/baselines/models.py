"""Trained baselines for ``AutoModel``: import this module, so that ``from_pretrained`` can load them.

Example:
    >>> import cxc_eccv.studies.baselines.models
    >>> from transformers import AutoConfig
    >>> AutoConfig.for_model("cxc_eccv_char_gru").embedding_size
    2048
"""

from cxc_eccv.studies.baselines.char_gru.model import CharGruEnsemble, CharGruModel
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor

__all__ = ["CharGruEnsemble", "CharGruModel", "DualEncoderModel", "EntailmentClassifier", "EntailmentProcessor"]
