"""The manifests in deploy/kubernetes/ fit Kubernetes' schemas, each other, and the service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from ontodex.cli import app
from ontodex.serve.api import DRAIN_SECONDS

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
LABELS = {"app.kubernetes.io/name": "ontodex"}
KINDS = {
    "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"
}  # fmt: skip
CONNECTIONS = 100  # that PostgreSQL allows by default


def read_manifests() -> dict[str, dict[str, Any]]:
    documents = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
    assert len({one["kind"] for one in documents}) == len(documents)
    return {one["kind"]: one for one in documents}


MANIFESTS = read_manifests()
POD = MANIFESTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


def test_there_is_one_manifest_of_each_kind():
    assert set(MANIFESTS) == KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_manifest_fits_the_schema_of_kubernetes(kind):
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(MANIFESTS[kind], "1.32", strict=True)


def test_a_misspelt_field_does_not_fit_the_schema():
    validate = pytest.importorskip("kubernetes_validate")
    wrong = {**MANIFESTS["Service"], "spec": {"ports": [{"port": 80, "targetPorts": "http"}]}}
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.32", strict=True)


def test_all_of_them_mean_the_same_pods():
    spec = {kind: one["spec"] for kind, one in MANIFESTS.items()}
    assert POD["metadata"]["labels"] == LABELS
    assert spec["Service"]["selector"] == LABELS
    for selector in (
        spec["Deployment"]["selector"],
        spec["PodDisruptionBudget"]["selector"],
        spec["NetworkPolicy"]["podSelector"],
    ):
        assert selector == {"matchLabels": LABELS}
    target = spec["HorizontalPodAutoscaler"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", "ontodex")
    assert "replicas" not in spec["Deployment"], "it would undo what the autoscaler set"


def test_the_service_is_started_with_options_that_exist():
    name, *rest = CONTAINER["args"]
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    settings = command.make_context(name, rest).params
    (port,) = CONTAINER["ports"]
    assert settings["port"] == port["containerPort"]
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    for path in (settings["keys"], settings["proxy_secret"], settings["runs"][0]):
        assert mounts[str(path.parent)]["readOnly"] is True
    assert settings["user_header"]
    assert settings["proxy"]


def test_secrets_come_from_a_secret_and_are_on_no_command_line():
    (database,) = CONTAINER["env"]
    assert database["name"] == "ONTODEX_DATABASE"
    assert database["valueFrom"]["secretKeyRef"] == {"name": "ontodex", "key": "database-url"}
    assert not re.search(r"://[^/]*:[^/]*@|password", " ".join(CONTAINER["args"]))
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    files = {item["path"] for item in volumes["secrets"]["secret"]["items"]}
    assert files == {"keys.tsv", "proxy-secret"}


def test_the_pod_is_not_root_and_can_write_only_its_temporary_folder():
    pod, own = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    assert (pod["runAsNonRoot"], pod["runAsUser"]) == (True, 10001)
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["spec"]["automountServiceAccountToken"] is False
    writable = [m["mountPath"] for m in CONTAINER["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["/tmp"]
    assert set(CONTAINER["resources"]["limits"]) == {"cpu", "memory"}
    assert "ENV PATH=/opt/ontodex/bin" in (ROOT / "deploy" / "Containerfile").read_text()


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")],
)
def test_a_probe_asks_a_route_that_exists_and_needs_no_key(probe, path, client):
    asked = CONTAINER[probe]["httpGet"]
    assert asked == {"path": path, "port": "http"}
    assert client.get(asked["path"]).status_code == 200


def test_a_pod_has_time_to_leave_the_balancer_and_to_answer():
    command = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    assert POD["spec"]["terminationGracePeriodSeconds"] > int(command[1]) + DRAIN_SECONDS


def test_the_autoscaler_asks_for_a_metric_that_exists(client):
    spec = MANIFESTS["HorizontalPodAutoscaler"]["spec"]
    (metric,) = spec["metrics"]
    name = metric["pods"]["metric"]["name"]
    text = client.get("/metrics").text
    assert re.search(rf"^{name} \d+$", text, re.M)
    capacity = int(re.search(r"^ontodex_queue_capacity (\d+)$", text, re.M)[1])  # type: ignore[index]
    assert int(metric["pods"]["target"]["averageValue"]) < capacity
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["minAvailable"] < spec["minReplicas"]


def test_postgresql_has_connections_for_all_replicas():
    import sqlalchemy as sa

    pool = sa.create_engine("postgresql+psycopg://host/name").pool
    assert isinstance(pool, sa.QueuePool)
    largest = pool.size() + pool._max_overflow
    spec = MANIFESTS["HorizontalPodAutoscaler"]["spec"]
    assert largest * spec["maxReplicas"] < CONNECTIONS
    assert f"at most {largest} connections" in (FOLDER / "autoscaler.yaml").read_text()


def test_the_network_policy_opens_only_the_port_the_database_and_names():
    spec = MANIFESTS["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (incoming,) = spec["ingress"]
    assert [one["port"] for one in incoming["ports"]] == [CONTAINER["ports"][0]["containerPort"]]
    ports = [{one["port"] for one in rule["ports"]} for rule in spec["egress"]]
    assert ports == [{5432}, {53}]
    assert all(rule.get("to") for rule in spec["egress"]), "no rule is open to everybody"
