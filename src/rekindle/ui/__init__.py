"""A server that shows the jobs of storages: pages, REST, Flink's REST, metrics. It needs the extra `rekindle[ui]`."""
