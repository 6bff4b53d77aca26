"""Inputs of a task as DataFrames: sources and channels, their watermark rows, their frozen lists."""
