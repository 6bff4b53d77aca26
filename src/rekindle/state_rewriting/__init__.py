"""State written again as a user's function has changed it: computed, checked, written by Spark, read back."""

from rekindle.state_rewriting.rewriter import can_rewrite, prepare

__all__ = ["can_rewrite", "prepare"]
