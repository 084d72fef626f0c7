"""One repository on the Hub: access, answers, faults, and no secrets in any message."""
