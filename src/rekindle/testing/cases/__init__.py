"""Conformance cases: one module a kind, each turning a case into calls of the protocol's own code.

Each exports a function of a case (a JSON object) that returns whether the protocol did what the case says, and what it
did. It raises where it cannot run the case.
"""
