"""Plans: building that of a task, and refusing one that could only go wrong later."""
