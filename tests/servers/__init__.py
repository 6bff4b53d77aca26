"""Real servers for the tests of connectors: each is private to the test session, in a folder of its own."""
