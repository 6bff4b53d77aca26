"""A read model: what the documents of a storage say of its jobs. It starts nothing and writes nothing."""
