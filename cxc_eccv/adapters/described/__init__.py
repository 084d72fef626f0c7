"""What modules of metrics say about themselves: inputs, results, limits, an example; and the card of their Space."""

from cxc_eccv.adapters.described.info import module_info, module_parts

__all__ = ["module_info", "module_parts"]
