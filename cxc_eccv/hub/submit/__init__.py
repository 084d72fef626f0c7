"""A checked report to a leaderboard entry."""
