"""Write expected.json of the conformance kit, and the table of docs/reference/conformance.md, from what is installed.

    python tools/conformance_table.py             both
    python tools/conformance_table.py --expected  the values alone

The table takes some minutes; every library must be installed, and a difference that nothing explains is refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cxc_eccv.integrations.conformance import comparison_tables, expected_values, peers, run_kit
from cxc_eccv.tables import tables_to_markdown

ROOT = Path(__file__).resolve().parents[1]
EXPECTED = ROOT / "cxc_eccv" / "integrations" / "conformance" / "expected.json"
PAGE = ROOT / "docs" / "reference" / "conformance.md"
START, END = "<!-- generated: table -->\n", "<!-- end of the generated part -->\n"


def main() -> None:
    """Write the files."""
    EXPECTED.write_text(json.dumps(expected_values(), indent=1) + "\n", encoding="utf-8")
    if "--expected" in sys.argv:
        return
    chosen = list(peers().values())
    missing = [peer.package for peer in chosen if peer.version is None]
    rows = run_kit(chosen)
    unexplained = [row for row in rows if row.why is None]
    if missing or unexplained:
        raise SystemExit(f"not installed: {missing}; unexplained: {unexplained}")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    table = tables_to_markdown(comparison_tables(chosen, rows))
    PAGE.write_text(f"{before}{START}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
