"""Simulated lives use no thread and no clock but simulated ones, else a seed would not always be the same life."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import pytest

import rekindle
from tests.simulation.cooperative import Scheduler, Threading

OF_CLOCKS_AND_THREADS = ("time", "threading", "_thread", "queue", "_queue")

HELD = {
    "rekindle.cli.clock.VerbClock.wait",
    "rekindle.cli.clock._MACHINES.wait",
    "rekindle.monitoring.patience.PatientStore.__init__(elapsed_s)",
    "rekindle.spark.inputs.split_reader.Reads.clock",
}
"""What modules hold for good of the standard library's: lives hand in another, or do not come by."""


def test_modules_hold_no_clock_and_no_thread_for_good() -> None:
    """Lives replace ``time`` and ``threading`` in each module, which does not reach a default, or a name of its own."""
    names = [one.name for one in pkgutil.walk_packages(rekindle.__path__, "rekindle.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    assert {held for module in modules if ".testing" not in module.__name__ for held in _held_by(module)} == HELD


def _held_by(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if _is_real(value):
            yield f"{module.__name__}.{name}"
        elif getattr(value, "__module__", None) == module.__name__:
            yield from (f"{module.__name__}.{name}{where}" for where in _defaults_of(value))


def _defaults_of(value: Any) -> Iterator[str]:
    if is_dataclass(value):
        yield from (f".{one.name}" for one in fields(value) if _is_real(one.default) or _is_real(one.default_factory))
    elif inspect.isclass(value):
        for name, method in inspect.getmembers(value, inspect.isfunction):
            yield from (f".{name}{where}" for where in _defaults_of(method))
    elif inspect.isfunction(value):
        parameters = inspect.signature(value).parameters.values()
        yield from (f"({one.name})" for one in parameters if _is_real(one.default))


def _is_real(value: object) -> bool:
    is_made = inspect.isclass(value) or inspect.isroutine(value)
    return is_made and getattr(value, "__module__", None) in OF_CLOCKS_AND_THREADS


def test_a_real_thread_cannot_start_in_a_life() -> None:
    scheduler = Scheduler(0)
    with Threading(scheduler).stood_in(), pytest.raises(AssertionError, match="real thread"):
        threading.Thread(target=print).start()
    assert scheduler.failure is not None
