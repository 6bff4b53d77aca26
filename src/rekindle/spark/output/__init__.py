"""What a batch writes: sinks and channels, from one evaluation."""
