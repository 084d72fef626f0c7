"""Hugging Face Hub: uploads, and the leaderboard."""

BENCHMARK = "cxc-eccv/cxc_eccv"
"""Repository of the released dataset on the Hub: the benchmark of the leaderboard."""
ADDRESS = f"https://huggingface.co/datasets/{BENCHMARK}"

NOT_PUSHED = f"The benchmark {BENCHMARK} is not on the Hub yet."
"""What commands and pages say until it is pushed."""
