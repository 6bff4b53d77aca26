"""The feeding of a query: inboxes, the marks among them, and how much is admitted at once."""
