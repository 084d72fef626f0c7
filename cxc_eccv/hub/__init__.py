"""Hugging Face Hub: uploads, and submissions to the leaderboard."""
