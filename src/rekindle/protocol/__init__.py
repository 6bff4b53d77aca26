"""The protocol: a pure state machine with one door, `JobMachine.handle(event) -> commands`.

This package has no Spark, system clock, threads, files or logging: time is an event, effects are commands. The order of
the returned tuple is the order of execution, and a crash may fall between any two commands.
"""
