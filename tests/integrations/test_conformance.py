"""The conformance kit: our values against a slow oracle, other libraries' against their rules stated again."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cxc_eccv.integrations.conformance import Peer, choose, compare, comparison_tables, parts, peers, run_kit
from cxc_eccv.integrations.conformance import embeddings as script
from cxc_eccv.integrations.conformance.expected import METRICS, OURS, expected_values, kit_files
from cxc_eccv.integrations.conformance.kit import top_items_of_deepest
from cxc_eccv.integrations.conformance.peer import Meaning
from cxc_eccv.integrations.conformance.rules import earlier_first
from cxc_eccv.tables import tables_to_markdown
