"""The compiled part of the package; everything else about it is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "cxc_eccv.kernels._kernels",
            sources=["cxc_eccv/kernels/_kernels.c"],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            # Without a compiler NumPy counts, with the same results.
            optional=True,
        )
    ]
)
