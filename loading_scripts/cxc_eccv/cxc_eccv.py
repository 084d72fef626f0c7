"""The builder of cxc_eccv as a loading script; needs the package ``cxc_eccv``.

With datasets < 4: ``load_dataset("loading_scripts/cxc_eccv", "sits", trust_remote_code=True, data_dir=...)``.
From datasets 4 on, which refuses scripts, import the class:
``CxcEccv(config_name="sits", data_dir=...).download_and_prepare()``.
"""

from cxc_eccv.builders import load


class CxcEccv(load.CxcEccv):
    """Every config of cxc_eccv; see :class:`cxc_eccv.builders.load.CxcEccv`."""
