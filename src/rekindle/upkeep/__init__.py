"""Look after storages: check that what lies in one is whole."""
