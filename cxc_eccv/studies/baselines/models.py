"""Trained baselines for ``AutoModel``: importing this module is all that ``from_pretrained`` needs to know them.

Example:
    >>> import cxc_eccv.studies.baselines.models
    >>> from transformers import AutoConfig
    >>> AutoConfig.for_model("cxc_eccv_char_gru").embedding_size
    2048
"""
