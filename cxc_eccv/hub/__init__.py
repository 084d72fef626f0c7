"""Hugging Face Hub: uploads, submissions to the leaderboard, and what the ``evaluate`` modules run on."""
