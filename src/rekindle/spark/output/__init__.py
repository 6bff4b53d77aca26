"""The outputs of a batch: sinks and channels, written from one evaluation."""
