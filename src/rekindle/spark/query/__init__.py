"""One streaming query: run, held, polled, flushed."""
