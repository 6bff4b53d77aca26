"""Tasks that run as streams."""
