"""Metadata of the package with the addresses that an owner set, in a folder that Python finds before the real ones."""

from cxc_eccv import version

REPOSITORY = "https://example.org/owner/cxc_eccv"
BENCHMARK = "owner/cxc_eccv"
ADDRESSES = {"Repository": REPOSITORY, "Benchmark": f"https://huggingface.co/datasets/{BENCHMARK}"}


def write_metadata(folder, addresses):
    """Write them into a folder of the module path."""
    lines = ["Metadata-Version: 2.4", "Name: cxc_eccv", f"Version: {version.__version__}"]
    lines += [f"Project-URL: {label}, {address}" for label, address in addresses.items()]
    info = folder / "cxc_eccv-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("\n".join([*lines, "", ""]), encoding="utf-8")
