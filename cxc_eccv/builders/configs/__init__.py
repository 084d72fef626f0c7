"""One file per dataset config; each defines ``CONFIG``."""
