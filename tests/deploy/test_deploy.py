"""What `deploy/` holds: units that systemd accepts, manifests of Kubernetes' schemas, DAGs, and how they stop a job."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rekindle.cli.app import INTERRUPTED, WRONG_COMMAND_LINE
from rekindle.cli.verbs import rekindle
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from tests.jobs.kit import until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
LONG_S = 300


def unit(name: str) -> dict[str, str]:
    """The settings of a service, without the sections."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / name)
    return {key: value for section in parser.sections() for key, value in parser[section].items()}


def commands() -> Iterator[list[str]]:
    """Every command line of Rekindle in the files, without the program."""
    for name in ("rekindle@.service", "rekindle-check@.service"):
        yield shlex.split(unit(name)["ExecStart"])[1:]
    for path in MANIFESTS:
        for container in containers(yaml.safe_load(path.read_text())):
            yield container["args"]
            for probe in ("startupProbe", "livenessProbe"):
                if probe in container:
                    yield container[probe]["exec"]["command"][1:]
    dags = (DEPLOY / "airflow" / "rekindle_dags.py").read_text()
    for line in re.findall(r'bash_command="(?:exec )?rekindle ([^"]*)"', dags):
        yield shlex.split(line)


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    template = manifest["spec"].get("template")
    return template["spec"]["containers"] if template else []


def test_every_command_in_the_files_is_one_of_the_command_line() -> None:
    found = list(commands())
    assert len(found) >= 7
    for verb, *arguments in found:
        context = rekindle.commands[verb].make_context(verb, list(arguments), resilient_parsing=False)
        assert context.params


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_driver_has_time_for_its_last_checkpoint_and_is_never_there_twice(path: Path) -> None:
    manifest = yaml.safe_load(path.read_text())
    if manifest["kind"] == "SparkApplication":
        assert manifest["spec"]["driver"]["terminationGracePeriodSeconds"] >= 60
        return
    assert manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= 600
    if manifest["kind"] == "Deployment":
        assert (manifest["spec"]["replicas"], manifest["spec"]["strategy"]) == (1, {"type": "Recreate"})
        (driver,) = containers(manifest)
        assert "--running" in driver["startupProbe"]["exec"]["command"]  # else a rollout is over before the start


def test_a_driver_with_a_storage_in_s3_brings_what_spark_reaches_s3_by() -> None:
    """Without it the job of the manifest was refused: `S3A_MISSING`."""
    found = [one for path in MANIFESTS for one in containers(yaml.safe_load(path.read_text()))]
    assert len(found) == 2
    for container in found:
        assert container["env"][0]["value"].startswith("s3://")
        assert any(word.startswith("spark.jars.packages=org.apache.hadoop:hadoop-aws:") for word in container["args"])


@pytest.mark.parametrize(
    "path", [path for path in MANIFESTS if path.name != "sparkapplication.yaml"], ids=lambda path: path.name
)
def test_a_manifest_fits_the_schema_of_kubernetes(path: Path) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    validator.validate(yaml.safe_load(path.read_text()), "1.32", strict=True)


def not_taken(given: Any, taken: Any, path: str = "") -> Iterator[str]:
    """Yield what was given, and is not in what was made of it."""
    if isinstance(given, dict):
        for key, value in given.items():
            here = f"{path}.{key}"
            yield from not_taken(value, taken[key], here) if key in (taken or {}) else [here]
    elif isinstance(given, list):
        for number, (one, other) in enumerate(zip(given, taken, strict=True)):
            yield from not_taken(one, other, f"{path}[{number}]")
    elif given != taken:
        yield path


def test_the_application_for_the_spark_operator_is_one_that_the_operator_takes() -> None:
    models = pytest.importorskip("kubeflow_spark_api.models")
    of = models.SparkV1beta2SparkApplication.from_dict
    application = yaml.safe_load((DEPLOY / "kubernetes" / "sparkapplication.yaml").read_text())

    assert [*not_taken(application, of(application).to_dict())] == []

    application["spec"]["driver"]["terminationGraceSeconds"] = 60
    assert [*not_taken(application, of(application).to_dict())] == [".spec.driver.terminationGraceSeconds"]
    application["spec"]["driver"]["cores"] = "many"
    with pytest.raises(ValueError, match="cores"):
        of(application)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on this machine")
    for path in (DEPLOY / "systemd").iterdir():
        text = path.read_text().replace("/srv/rekindle/venv/bin/rekindle", sys.executable)
        (tmp_path / path.name.replace("@", "@hourly_bids")).write_text(text.replace("User=rekindle\n", ""))
    units = [str(path) for path in tmp_path.iterdir()]
    said = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    ours = [line for line in said.stderr.splitlines() if "rekindle" in line]
    assert (said.returncode, ours) == (0, []), said.stderr


def test_a_unit_whose_job_was_asked_to_end_has_not_failed() -> None:
    settings = unit("rekindle@.service")
    assert (settings["Restart"], int(settings["SuccessExitStatus"])) == ("on-failure", INTERRUPTED)
    assert int(settings["RestartPreventExitStatus"]) == WRONG_COMMAND_LINE


def test_the_user_of_the_image_is_a_number_that_has_a_name_and_the_one_of_the_manifests() -> None:
    recipe = (DEPLOY / "docker" / "Dockerfile").read_text()
    (user,) = re.findall(r"^USER (\d+)$", recipe, re.MULTILINE)  # Kubernetes knows no names
    assert f"useradd --create-home --uid {user} rekindle" in recipe
    pods = [yaml.safe_load(path.read_text())["spec"].get("template") for path in MANIFESTS]
    assert {pod["spec"]["securityContext"]["runAsUser"] for pod in pods if pod} == {int(user)}


@pytest.mark.slow
def test_a_service_is_stopped_as_systemd_stops_it_and_leaves_no_process_and_a_last_checkpoint(tmp_path: Path) -> None:
    settings = unit("rekindle@.service")
    assert (settings["KillMode"], settings.get("KillSignal", "SIGTERM")) == ("mixed", "SIGTERM")
    program = [sys.executable, "-m", "rekindle.cli"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "REKINDLE_STORAGE": str(tmp_path / "state")}
    subprocess.run(
        [*program, "example", str(tmp_path / "jobs")], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    line = settings["ExecStart"].replace("/srv/rekindle/jobs/%i.py", "hourly_bids.py")
    with (tmp_path / "log").open("wb") as log:
        service = subprocess.Popen(
            [*program, *shlex.split(line)[1:], "--conf", "spark.master=local[2]"],
            cwd=tmp_path / "jobs", env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    storage = JobStorage(open_store(str(tmp_path / "state")), "hourly_bids")
    try:
        until(lambda: service.poll() is not None or bool(storage.checkpoints()), LONG_S)
        assert service.poll() is None, (tmp_path / "log").read_text()
        check = shlex.split(unit("rekindle-check@.service")["ExecStart"].replace("%i", "hourly_bids"))[1:]
        assert (
            subprocess.run([*program, *check], env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0
        )

        service.send_signal(signal.SIGTERM)  # KillMode=mixed: to the main process alone

        assert service.wait(LONG_S) == 0, "Restart=on-failure leaves it alone"
        until(lambda: _of_session(service.pid) == [], LONG_S)  # the JVM ends when the driver has
    finally:
        if service.poll() is None:
            os.killpg(service.pid, signal.SIGKILL)
    assert storage.state() == "STOPPED"


def _of_session(session: int) -> list[str]:
    """The ids of the processes of a session."""
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and _session(entry) == session]


def _session(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[3])
    except OSError:  # it has ended meanwhile
        return -1
