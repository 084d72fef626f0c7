"""Commands of failures and concepts."""
