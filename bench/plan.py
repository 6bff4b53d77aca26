"""`make bench-plan`: what it takes to plan a checkpoint of a very large job.

1,000,000 subtasks in 10 vertices, half of them finished at random, in two shapes: edges of both kinds, and POINTWISE
edges alone, between vertices of unequal parallelism, which leaves no shortcut. Each is planned several times, in a
process of its own and for other finished subtasks each time. Prints medians: the time of the plan alone, and the most
memory that the whole process held, with the interpreter, the modules and the sets that were given to it.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from itertools import pairwise

from rekindle.graph.subtask_set import SubtaskSet
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex
from rekindle.protocol.checkpoint_plan import CheckpointPlan, Work, calculate

SUBTASKS = 1_000_000
SIZES = (100_000, 100_000, 60_000, 140_000, 100_000, 50_000, 150_000, 80_000, 120_000, 100_000)
PW, A2A = EdgeKind.POINTWISE, EdgeKind.ALL_TO_ALL

SHAPES: dict[str, tuple[tuple[int, ...], tuple[tuple[int, int, EdgeKind], ...]]] = {
    "both kinds of edges": (
        SIZES,
        (
            *((0, 1, PW), (0, 2, PW), (1, 3, PW), (2, 3, PW), (2, 4, A2A), (3, 5, PW)),
            *((4, 6, PW), (5, 6, PW), (6, 7, A2A), (5, 8, PW), (7, 9, A2A), (8, 9, PW)),
        ),
    ),
    "POINTWISE alone, unequal": (
        tuple(size + 1_000 * (index - 4) - 500 for index, size in enumerate([SUBTASKS // 10] * 10)),
        tuple((source, target, PW) for source, target in pairwise(range(10))),
    ),
}


def measure(shape: str, seed: int) -> dict[str, float]:
    """Plan one shape once."""
    sizes, edges = SHAPES[shape]
    assert sum(sizes) == SUBTASKS
    topology = Topology(
        tuple(Vertex(uid=str(index), parallelism=size) for index, size in enumerate(sizes)),
        tuple(Edge(str(source), str(target), kind) for source, target, kind in edges),
    )
    chance = random.Random(seed)  # noqa: S311 (chance, not a secret)
    finished = {str(index): SubtaskSet(bytes(chance.choices((0, 1), k=size))) for index, size in enumerate(sizes)}
    work = Work()
    began = time.perf_counter()
    planned = calculate(topology, finished, after_tasks_finish=True, work=work)
    seconds = time.perf_counter() - began
    assert isinstance(planned, CheckpointPlan)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds,
        "mb": peak * (1 if platform.system() == "Darwin" else 1024) / 1_000_000,
        "triggered": sum(map(len, planned.to_trigger.values())),
        "waited for": sum(map(len, planned.to_wait_for.values())),
        "skipped": work.vertices_skipped,
        "steps": work.subtasks_examined,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Plan a checkpoint of 1,000,000 subtasks.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "SEED"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]))))
        return
    print(f"{SUBTASKS:,} subtasks in 10 vertices, half of them finished at random; medians of {given.runs} runs")
    for shape in SHAPES:
        runs = [
            json.loads(subprocess.check_output([sys.executable, __file__, "--one", shape, str(seed)]))
            for seed in range(given.runs)
        ]
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print(
            f"  {shape}: {middle['seconds'] * 1000:.0f} ms (at most {max(run['seconds'] for run in runs) * 1000:.0f}), "
            f"{middle['mb']:.0f} MB; {middle['triggered']:,.0f} triggered, {middle['waited for']:,.0f} waited for; "
            f"{middle['skipped']:.0f} vertices skipped, {middle['steps']:,.0f} single steps"
        )


if __name__ == "__main__":
    main()
