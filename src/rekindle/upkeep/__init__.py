"""Looking after storages: whether what lies in one is whole."""
