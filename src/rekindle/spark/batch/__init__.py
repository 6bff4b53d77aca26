"""Tasks that run once, over all of their input."""
