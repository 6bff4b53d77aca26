"""What a query is fed through: inboxes, the marks among them, and how much is admitted at once."""
