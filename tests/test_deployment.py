"""What runs the node elsewhere: images, charts, units, dashboards.  Checked as far as a parser can."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.ports import free_port

from fastnode.cli.app import EXIT_USAGE
from fastnode.config.settings import Settings, rows
from fastnode.errors import SettingError
from fastnode.testing import local_network

PROJECT = Path(__file__).parents[1]
DEPLOY = PROJECT / "deploy"
CHART = DEPLOY / "helm" / "fastnode"


def text_of(*parts: str) -> str:
    return DEPLOY.joinpath(*parts).read_text()


# ---- settings that are named --------------------------------------------------------------------------


def test_every_setting_that_is_named_exists() -> None:
    known = {name for setting in rows(Settings) for name in setting.environment}
    flags = {setting.flag for setting in rows(Settings)} | {"--node"}
    for path in DEPLOY.rglob("*"):
        if not path.is_file():
            continue
        text = path.read_text()
        assert set(re.findall(r"\bSVC_[A-Z0-9_]+\b", text)) - {"SVC_NAME"} <= known, path
        for command in re.findall(r"fastnode start (.+)", text):
            assert set(re.findall(r"--[a-z-]+", command)) <= flags, path


# ---- the image ----------------------------------------------------------------------------------------


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def test_the_image_does_not_run_as_root_and_has_no_compiler() -> None:
    lines = instructions(text_of("docker", "Dockerfile"))
    known = {"FROM", "ARG", "LABEL", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {name for name, _ in lines} <= known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    stages = [index for index, (name, _) in enumerate(lines) if name == "FROM"]
    assert len(stages) == 2
    last = lines[stages[1] :]
    assert ("USER", "fastnode") in last
    assert not any(name == "RUN" and "gcc" in rest for name, rest in last)
    names = [name for name, _ in last]
    assert names.index("USER") < names.index("ENTRYPOINT")
    for name, rest in last:
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
    for name, rest in lines:
        assert name != "FROM" or re.search(r":[\w.-]+@sha256:[0-9a-f]{64}( AS \w+)?$", rest), "no digest"
        if name == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists" in rest


def test_everything_that_the_image_copies_is_there_and_let_through() -> None:
    let_through = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name, rest in instructions(text_of("docker", "Dockerfile")):
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (PROJECT / source).exists()
                assert source in let_through


def test_the_admin_port_is_not_published() -> None:
    compose = yaml.safe_load(text_of("docker", "compose.yaml"))
    node = compose["services"]["node"]
    assert not any("8880" in port for port in node["ports"])
    exposed = [rest for name, rest in instructions(text_of("docker", "Dockerfile")) if name == "EXPOSE"]
    assert exposed == ["8080 9464"]
    assert (DEPLOY / "docker" / node["build"]["context"] / node["build"]["dockerfile"]).is_file()
    assert {volume.split(":")[0] for volume in node["volumes"]} == set(compose["volumes"])


# ---- systemd ------------------------------------------------------------------------------------------


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "fastnode.service"
    unit.write_text(
        re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text_of("systemd", "fastnode.service"), flags=re.M)
    )
    checked = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "fastnode.service" not in checked.stderr


def test_a_start_that_cannot_succeed_is_not_tried_again() -> None:
    unit = text_of("systemd", "fastnode.service")
    [codes] = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert codes.split() == [str(EXIT_USAGE), str(SettingError.exit_code)]


def test_the_service_manager_is_told_when_the_node_serves_and_when_it_stops(
    tmp_path: Path, start_node: Callable[..., Any]
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        address = tmp_path / "notify"
        manager.bind(str(address))
        node = start_node(NOTIFY_SOCKET=str(address))
        assert manager.recv(100) == b"READY=1"
        node.wait_until_serving()
        urllib.request.urlopen(f"{node.url}/livez", timeout=30).close()
        node.process.terminate()
        assert manager.recv(100) == b"STOPPING=1"
        assert node.process.wait(60) == 0


def test_a_service_manager_that_has_gone_is_a_warning(tmp_path: Path, start_node: Callable[..., Any]) -> None:
    node = start_node(NOTIFY_SOCKET=str(tmp_path / "nobody")).wait_until_serving()
    assert node.wait_for_line("the service manager is not told")["state"] == "READY=1"
    assert node.stop() == 0


# ---- the chart ----------------------------------------------------------------------------------------


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """As Helm lays one file of values over another."""
    result = dict(base)
    for name, value in over.items():
        old = base.get(name)
        result[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def values_of(*files: str, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for file in files:
        result = merged(result, yaml.safe_load((CHART / file).read_text()))
    return merged(result, more)


@dataclasses.dataclass
class Renderer:
    """The few actions of the template language that the chart uses; AssertionError for any other."""

    scope: dict[str, Any]
    helpers: dict[str, str]

    def render(self, text: str) -> str:
        # An action with a dash eats the blanks and the line break on that side.
        text = re.sub(r"[ \t]*\n?[ \t]*\{\{-", "{{", text)
        text = re.sub(r"-\}\}[ \t]*\n?", "}}", text)
        tokens = iter(re.split(r"(\{\{.*?\}\})", text))
        return self._block(tokens, active=True, variables={})[0]

    def _block(self, tokens: Iterator[str], *, active: bool, variables: dict[str, Any]) -> tuple[str, bool]:
        """Text up to the action that ends the block; whether there was one."""
        out = ""
        for token in tokens:
            if not token.startswith("{{"):
                out += token if active else ""
                continue
            action = token[2:-2].strip()
            if action == "end":
                return out, True
            if action.startswith("if "):
                inner, ended = self._block(
                    tokens, active=active and bool(self._value(action[3:], variables)), variables=variables
                )
                assert ended, "an if without an end"
                out += inner
            elif action.startswith("range $name, $value := "):
                body = list(self._until_end(tokens))
                items = self._value(action.removeprefix("range $name, $value := "), variables)
                for name, value in items.items():
                    inner, _ = self._block(iter(body), active=active, variables={"$name": name, "$value": value})
                    out += inner
            elif active:
                out += str(self._value(action, variables))
        return out, False

    @staticmethod
    def _until_end(tokens: Iterator[str]) -> Iterator[str]:
        for token in tokens:
            if re.fullmatch(r"\{\{\s*end\s*\}\}", token):
                return
            yield token
        raise AssertionError("a range without an end")

    def _value(self, expression: str, variables: dict[str, Any]) -> Any:
        if expression.startswith("not "):
            return not self._term(expression.removeprefix("not "), variables)
        if expression.startswith("or "):
            return next((value for term in expression.split()[1:] if (value := self._term(term, variables))), "")
        first, *pipes = (part.strip() for part in expression.split("|"))
        value = self._term(first, variables)
        for pipe in pipes:
            name, *arguments = pipe.split()
            if name == "quote":
                value = json.dumps(str(value).lower() if isinstance(value, bool) else str(value))
            elif name == "nindent":
                value = "\n" + "\n".join(" " * int(arguments[0]) + line for line in value.splitlines())
            elif name == "default":
                value = value or self._term(pipe.removeprefix("default").strip(), variables)
            elif name == "sha256sum":
                value = hashlib.sha256(value.encode()).hexdigest()
            else:
                raise AssertionError(f"an unknown function: {name}")
        return value

    def _term(self, term: str, variables: dict[str, Any]) -> Any:
        if term.startswith("include "):
            return Renderer(self.scope, self.helpers).render(self.helpers[term.split('"')[1]])
        if term.startswith("toYaml "):
            return yaml.safe_dump(self._term(term.removeprefix("toYaml "), variables)).rstrip()
        if printf := re.fullmatch(r'\(printf "(.*)" (\S+)\)', term):
            return printf[1] % self._term(printf[2], variables)
        if file := re.fullmatch(r'\.Files\.Get "(.*)"', term):
            return (CHART / file[1]).read_text()
        if term in variables:
            return variables[term]
        term = term.removeprefix("$")  # the whole scope, also inside of a range
        assert term.startswith("."), f"an unknown term: {term}"
        value: Any = self.scope
        for name in term[1:].split("."):
            value = value[name]  # KeyError: not in values.yaml
        return value


def rendered(values: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The chart's objects by kind and name."""
    helper_text = (CHART / "templates" / "_helpers.tpl").read_text()
    helpers = dict(re.findall(r'\{\{- define "([\w.]+)" -\}\}\n(.*?)\n\{\{- end \}\}', helper_text, re.DOTALL))
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scope = {"Values": values, "Release": {"Name": "a"}, "Chart": {"AppVersion": chart["appVersion"]}}
    objects = {}
    for template in sorted((CHART / "templates").glob("*.yaml")):
        for document in yaml.safe_load_all(Renderer(scope, helpers).render(template.read_text())):
            if document is not None:
                objects[document["kind"], document["metadata"]["name"]] = document
    return objects


def pod_of(objects: dict[tuple[str, str], Any]) -> dict[str, Any]:
    result: dict[str, Any] = objects["StatefulSet", "a"]["spec"]["template"]["spec"]
    return result


def container_of(objects: dict[tuple[str, str], Any]) -> dict[str, Any]:
    [container] = pod_of(objects)["containers"]
    result: dict[str, Any] = container
    return result


def test_the_chart_asks_for_no_admin_key_by_default_and_for_one_in_production() -> None:
    assert values_of("values.yaml")["disableAdminApiKey"] is True
    assert values_of("values.yaml", "values-production.yaml")["disableAdminApiKey"] is False
    environments = [
        {entry["name"]: entry for entry in container_of(rendered(values))["env"]}
        for values in (values_of("values.yaml"), values_of("values.yaml", "values-production.yaml"))
    ]
    assert [each["SVC_DISABLE_ADMIN_API_KEY"]["value"] for each in environments] == ["true", "false"]
    assert [each["SVC_ADMIN_HOST"]["value"] for each in environments] == ["127.0.0.1", "127.0.0.1"]
    assert "SVC_ADMIN_API_KEY_HASH" not in environments[0]
    assert environments[1]["SVC_ADMIN_API_KEY_HASH"]["valueFrom"]["secretKeyRef"]["name"] == "fastnode-admin"


def test_a_pod_of_the_chart_has_no_token_of_the_cluster() -> None:
    assert pod_of(rendered(values_of("values.yaml")))["automountServiceAccountToken"] is False


def test_a_pod_of_the_chart_starts_the_image_of_a_digest() -> None:
    digest = f"sha256:{'1f' * 32}"
    values = values_of("values.yaml", image={"tag": "2", "digest": digest})
    assert value_errors(values) == []
    assert container_of(rendered(values))["image"] == f"fastnode:2@{digest}"


def test_the_charts_objects_belong_together() -> None:
    objects = rendered(values_of("values.yaml", environment={"SVC_METHOD_SET": "release"}))
    expected = {("StatefulSet", "a"), ("Service", "a"), ("Service", "a-metrics"), ("NetworkPolicy", "a")}
    assert set(objects) == expected
    container = container_of(objects)
    assert container["image"] == "fastnode:" + yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert {"name": "SVC_METHOD_SET", "value": "release"} in container["env"]
    labels = objects["StatefulSet", "a"]["spec"]["template"]["metadata"]["labels"]
    for name in ("a", "a-metrics"):
        spec = objects["Service", name]["spec"]
        assert spec["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in spec["ports"]} <= {port["name"] for port in container["ports"]}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert 8880 not in {port["containerPort"] for port in container["ports"]}


def test_the_chart_of_production_is_scraped_and_has_limits() -> None:
    objects = rendered(values_of("values.yaml", "values-production.yaml", upstreamUrl="https://node.example"))
    assert ("ServiceMonitor", "a") in objects
    assert container_of(objects)["resources"]["limits"]["memory"] == "8Gi"
    assert {"name": "SVC_UPSTREAM_URL", "value": "https://node.example"} in container_of(objects)["env"]
    grace = objects["StatefulSet", "a"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > 5 + Settings().shutdown_grace_s


def test_settings_with_secrets_come_from_secrets() -> None:
    secret = {"secretKeyRef": {"name": "fastnode", "key": "l1-url"}}
    whole = [{"secretRef": {"name": "all"}}]
    container = container_of(rendered(values_of("values.yaml", environmentFrom={"L1_RPC_URLS": secret}, envFrom=whole)))
    assert {"name": "L1_RPC_URLS", "valueFrom": secret} in container["env"]
    assert container["envFrom"] == whole
    assert "envFrom" not in container_of(rendered(values_of("values.yaml")))


def test_clients_from_outside_come_by_an_ingress_to_the_port_of_calls() -> None:
    assert not [kind for kind, _ in rendered(values_of("values.yaml")) if kind == "Ingress"]
    tls = [{"hosts": ["rpc.example"], "secretName": "rpc"}]
    asked = {"enabled": True, "className": "nginx", "hosts": {"rpc.example": "/", "b.example": "/aztec"}, "tls": tls}
    objects = rendered(values_of("values.yaml", ingress=asked))
    spec = objects["Ingress", "a"]["spec"]
    assert (spec["ingressClassName"], spec["tls"]) == ("nginx", tls)
    assert {rule["host"]: rule["http"]["paths"][0]["path"] for rule in spec["rules"]} == asked["hosts"]
    [port] = objects["Service", "a"]["spec"]["ports"]
    for rule in spec["rules"]:
        [path] = rule["http"]["paths"]
        assert path["backend"]["service"] == {"name": "a", "port": {"name": port["name"]}}


def test_production_has_the_rules_and_the_dashboard_of_the_repository() -> None:
    default = rendered(values_of("values.yaml"))
    assert not {kind for kind, _ in default} & {"PrometheusRule", "ConfigMap"}
    objects = rendered(values_of("values.yaml", "values-production.yaml"))
    assert objects["PrometheusRule", "a"]["spec"] == yaml.safe_load(text_of("prometheus", "alerts.yaml"))
    dashboard = objects["ConfigMap", "a-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["fastnode.json"]) == json.loads(text_of("grafana", "fastnode.json"))


def test_a_service_called_svc_puts_no_settings_into_the_pod() -> None:
    assert pod_of(rendered(values_of("values.yaml")))["enableServiceLinks"] is False


def test_limits_reach_the_node_through_a_config_map_and_other_limits_mean_other_pods() -> None:
    content = "[address]\nrate = 50\n"
    objects = rendered(values_of("values.yaml", rpcLimits={"content": content}))
    assert objects["ConfigMap", "a-rpc-limits"]["data"] == {"limits.toml": content}
    container = container_of(objects)
    file = next(entry["value"] for entry in container["env"] if entry["name"] == "SVC_RPC_LIMITS")
    mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "rpc-limits")
    assert file == f"{mount['mountPath']}/limits.toml"
    volumes = {volume["name"]: volume for volume in pod_of(objects)["volumes"]}
    assert volumes["rpc-limits"]["configMap"]["name"] == "a-rpc-limits"
    checksums = {
        rendered(values_of("values.yaml", rpcLimits={"content": text}))["StatefulSet", "a"]["spec"]["template"][
            "metadata"
        ]["annotations"]["checksum/rpc-limits"]
        for text in (content, "[address]\nrate = 51\n")
    }
    assert len(checksums) == 2

    of_another = rendered(values_of("values.yaml", rpcLimits={"configMap": "mine"}))
    assert not any(kind == "ConfigMap" for kind, _ in of_another)
    volumes = {volume["name"]: volume for volume in pod_of(of_another)["volumes"]}
    assert volumes["rpc-limits"]["configMap"]["name"] == "mine"
    assert "rpc-limits" not in {volume["name"] for volume in pod_of(rendered(values_of("values.yaml")))["volumes"]}


def test_a_service_monitor_has_the_labels_it_is_selected_by_and_the_job_that_alerts_look_for() -> None:
    labels = {"serviceMonitorLabels": {"release": "prometheus"}, "serviceMonitor": True}
    monitor = rendered(values_of("values.yaml", metrics=labels))["ServiceMonitor", "a"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["jobLabel"] in monitor["metadata"]["labels"]
    services = rendered(values_of("values.yaml"))["Service", "a-metrics"]["metadata"]["labels"]
    assert services[monitor["spec"]["jobLabel"]] == "fastnode"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= services.items()


def test_pods_of_production_are_spread_disturbed_one_at_a_time_and_closed_but_for_two_ports() -> None:
    objects = rendered(values_of("values.yaml", "values-production.yaml"))
    labels = objects["StatefulSet", "a"]["spec"]["template"]["metadata"]["labels"]
    [spread] = pod_of(objects)["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    budget = objects["PodDisruptionBudget", "a"]["spec"]
    assert budget["maxUnavailable"] == 1
    policy = objects["NetworkPolicy", "a"]["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == ["rpc", "metrics"]
    assert "from" not in policy["ingress"][0]
    assert policy["ingress"][1]["from"]
    for selector in (spread["labelSelector"], budget["selector"], policy["podSelector"]):
        assert selector["matchLabels"].items() <= labels.items()


def value_errors(values: dict[str, Any]) -> list[str]:
    schema = json.loads((CHART / "values.schema.json").read_text())
    return [error.json_path for error in jsonschema.Draft7Validator(schema).iter_errors(values)]


def test_the_values_are_as_their_schema_says() -> None:
    assert value_errors(values_of("values.yaml")) == []
    assert value_errors(values_of("values.yaml", "values-production.yaml")) == []
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) == {*values_of("values.yaml"), "global"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"replica": 2}, "$"),
        ({"replicas": "2"}, "$.replicas"),
        ({"image": {"digest": "1f"}}, "$.image.digest"),
        ({"workers": "all"}, "$.workers"),
        ({"service": {"port": 70_000}}, "$.service.port"),
        ({"upstreamUrl": "node:8080"}, "$.upstreamUrl"),
        ({"disableAdminApiKey": False}, "$.adminApiKeySecret"),
        ({"storage": {"size": "many"}}, "$.storage.size"),
        ({"environment": {"SVC-PORT": "1"}}, "$.environment"),
        ({"rpcLimits": {"content": "a", "configMap": "b"}}, "$.rpcLimits"),
        ({"environmentFrom": {"L1_RPC_URLS": "http://l1"}}, "$.environmentFrom.L1_RPC_URLS"),
        ({"environmentFrom": {"L1_RPC_URLS": {"secret": "a"}}}, "$.environmentFrom.L1_RPC_URLS"),
        ({"envFrom": [{"secret": "a"}]}, "$.envFrom[0]"),
        ({"ingress": {"enabled": True}}, "$.ingress.hosts"),
        ({"ingress": {"hosts": {"a.example": "rpc"}}}, "$.ingress.hosts['a.example']"),
    ],
)
def test_a_mistake_in_the_values_is_found_before_anything_is_installed(change: dict[str, Any], place: str) -> None:
    assert value_errors(values_of("values.yaml", **change)) == [place]


def test_the_charts_objects_are_as_kubernetes_wants_them() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not here")
    values = values_of(
        "values.yaml",
        "values-production.yaml",
        rpcLimits={"content": "[address]\nrate = 50\n"},
        ingress={"enabled": True, "hosts": {"rpc.example": "/"}},
        environmentFrom={"L1_RPC_URLS": {"secretKeyRef": {"name": "a", "key": "b"}}},
        envFrom=[{"secretRef": {"name": "c"}}],
    )
    for (kind, _), item in rendered(values).items():
        if kind not in ("ServiceMonitor", "PrometheusRule"):  # not Kubernetes' own
            kubernetes_validate.validate(item, "1.29", strict=True)


def test_a_pod_has_as_many_processes_that_answer_as_the_values_say() -> None:
    def workers_of(values: dict[str, Any]) -> list[str]:
        assert value_errors(values) == []
        return [entry["value"] for entry in container_of(rendered(values))["env"] if entry["name"] == "SVC_WORKERS"]

    assert workers_of(values_of("values.yaml")) == []
    assert workers_of(values_of("values.yaml", workers=4)) == ["4"]
    assert workers_of(values_of("values.yaml", "values-production.yaml", workers="auto")) == ["auto"]


def test_a_fleet_is_two_releases_of_the_chart_on_one_bus() -> None:
    publishers = values_of("values.yaml", "values-publishers.yaml", upstreamUrl="https://node.example")
    replicas = values_of("values.yaml", "values-replicas.yaml", bus={"credentialsSecret": "bus"})
    for values, publishes in ((publishers, "true"), (replicas, "false")):
        assert value_errors(values) == []
        objects = rendered(values)
        environment = {entry["name"]: entry for entry in container_of(objects)["env"]}
        assert environment["SVC_BUS_URL"]["value"] == "nats://nats:4222"
        assert environment["SVC_BUS_PUBLISH"]["value"] == publishes
        assert environment["SVC_BUS_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
        scaled = ("HorizontalPodAutoscaler", "a") in objects
        assert scaled == ("replicas" not in objects["StatefulSet", "a"]["spec"]) == (publishes == "false")
    assert "bus" in {volume["name"] for volume in pod_of(rendered(replicas))["volumes"]}
    assert "bus" not in {volume["name"] for volume in pod_of(rendered(publishers))["volumes"]}
    assert "SVC_BUS_URL" not in {entry["name"] for entry in container_of(rendered(values_of("values.yaml")))["env"]}


def test_the_fleet_of_containers_is_complete() -> None:
    compose = yaml.safe_load(text_of("docker", "compose-fleet.yaml"))
    services = compose["services"]
    assert [name for name in services if name.startswith("publisher")] == ["publisher-1", "publisher-2"]
    replicas = [name for name in services if name.startswith("replica")]
    assert re.findall(r"server ([\w-]+):8080", text_of("nginx", "fleet.conf")) == replicas
    names = [service["environment"]["SVC_BUS_NAME"] for service in services.values() if "environment" in service]
    assert len(names) == len(set(names)) == 5
    for service in services.values():
        assert "8880" not in str(service.get("ports"))
    mounted = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert {name for name in mounted if not name.startswith("..")} == set(compose["volumes"])


def test_production_overrides_only_what_exists() -> None:
    def paths(values: dict[str, Any], prefix: str = "") -> set[str]:
        nested = (
            paths(value, f"{prefix}{name}.") for name, value in values.items() if isinstance(value, dict) and value
        )
        return {prefix + name for name in values}.union(*nested)

    base = paths(values_of("values.yaml"))
    free = ("resources.", "networkPolicy.metricsFrom")
    assert {path for path in paths(values_of("values-production.yaml")) if not path.startswith(free)} <= base


def test_versions_agree() -> None:
    from fastnode import __version__

    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


# ---- dashboards and alerts ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def offered() -> set[str]:
    """The names that the node's collector can give."""
    source = "".join(path.read_text() for path in sorted((PROJECT / "src" / "fastnode" / "metrics").glob("*.py")))
    counters = re.findall(r'(?:CounterMetricFamily\(\s*"fastnode_|_count\(")(\w+)', source)
    gauges = re.findall(r'(?:GaugeMetricFamily\(\s*"fastnode_|_gauge\(")(\w+)', source)
    histograms = [*re.findall(r'HistogramMetricFamily\("fastnode_(\w+)', source), "rpc_call_duration_seconds"]
    names = {*gauges, *(f"{name}_total" for name in counters), *(f"{name}_bucket" for name in histograms)}
    return {f"fastnode_{name}" for name in names}


def expressions() -> list[str]:
    dashboard = json.loads(text_of("grafana", "fastnode.json"))
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load(text_of("prometheus", "alerts.yaml"))
    return found + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def test_every_metric_that_is_asked_for_is_offered(offered: set[str]) -> None:
    assert len(offered) > 25
    for expression in expressions():
        assert set(re.findall(r"fastnode_\w+", re.sub(r'"[^"]*"', "", expression))) <= offered, expression


def test_every_expression_closes_what_it_opens() -> None:
    for expression in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression


def test_the_dashboard_has_panels_that_do_not_overlap() -> None:
    panels = json.loads(text_of("grafana", "fastnode.json"))["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels) > 10


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    rules = yaml.safe_load(text_of("prometheus", "alerts.yaml"))
    names = []
    for group in rules["groups"]:
        for rule in group["rules"]:
            names.append(rule["alert"])
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert set(rule["annotations"]) == {"summary", "description"}
    assert len(names) == len(set(names))


def rule_of(alert: str) -> dict[str, Any]:
    rules = yaml.safe_load(text_of("prometheus", "alerts.yaml"))
    [rule] = [rule for group in rules["groups"] for rule in group["rules"] if rule["alert"] == alert]
    result: dict[str, Any] = rule
    return result


def test_a_node_that_follows_nothing_is_not_said_to_stand() -> None:
    """Such a node has no metric of this name."""
    assert "and on (job, instance) fastnode_sync_ready == 1" in rule_of("FastnodeChainStands")["expr"]
    assert rule_of("FastnodeNotReady")["expr"] == "fastnode_sync_ready == 0"


#: What four nodes say for half an hour, and what is to be heard of it: one whose chain stands though it is ready, one
#: that follows nothing, one that is not ready, and one whose disk is full and whose last snapshot failed.
ALERT_SCENARIO: dict[str, Any] = {
    "rule_files": ["alerts.yaml"],
    "evaluation_interval": "1m",
    "tests": [
        {
            "interval": "1m",
            "input_series": [
                {
                    "series": 'fastnode_chain_tip_block{tip="proposed",job="fastnode",instance="stands"}',
                    "values": "9x40",
                },
                {"series": 'fastnode_sync_ready{job="fastnode",instance="stands"}', "values": "1x40"},
                {
                    "series": 'fastnode_chain_tip_block{tip="proposed",job="fastnode",instance="alone"}',
                    "values": "9x40",
                },
                {"series": 'fastnode_chain_tip_block{tip="proposed",job="fastnode",instance="late"}', "values": "9x40"},
                {"series": 'fastnode_sync_ready{job="fastnode",instance="late"}', "values": "0x40"},
                {"series": 'fastnode_disk_free_bytes{job="fastnode",instance="full"}', "values": "1000x40"},
                {"series": 'fastnode_disk_free_bytes{job="fastnode",instance="alone"}', "values": "9000x40"},
                {"series": 'fastnode_disk_required_bytes{job="fastnode",instance="full"}', "values": "1001x40"},
                {"series": 'fastnode_disk_required_bytes{job="fastnode",instance="alone"}', "values": "1001x40"},
                {
                    "series": 'fastnode_component_failing{component="pool",job="fastnode",instance="full"}',
                    "values": "1x40",
                },
                {
                    "series": 'fastnode_component_failing{component="snapshots",job="fastnode",instance="full"}',
                    "values": "1x40",
                },
                {
                    "series": 'fastnode_component_failing{component="pool",job="fastnode",instance="alone"}',
                    "values": "0x40",
                },
            ],
            "promql_expr_test": [
                {
                    "expr": f'count by (instance) (ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": "30m",
                    "exp_samples": [{"labels": f'{{instance="{instance}"}}', "value": 1}],
                }
                for alert, instance in (
                    ("FastnodeChainStands", "stands"),
                    ("FastnodeNotReady", "late"),
                    ("FastnodeDiskAlmostFull", "full"),
                    ("FastnodeDiskFull", "full"),
                    ("FastnodeCannotUseDatabase", "full"),
                    ("FastnodeBackgroundWorkFails", "full"),
                )
            ],
        }
    ],
}


def test_alerts_name_components_that_the_node_has() -> None:
    named = re.findall(r'component=~"([^"]+)"', text_of("prometheus", "alerts.yaml"))
    sources = "".join(path.read_text() for path in (PROJECT / "src" / "fastnode").rglob("*.py"))
    assert len(named) == 2
    for component in "|".join(named).split("|"):
        assert f'"{component}"' in sources, component


def test_alerts_fire_where_they_should_only(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here")
    (tmp_path / "alerts.yaml").write_text(text_of("prometheus", "alerts.yaml"))
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(ALERT_SCENARIO))
    checked = subprocess.run(
        [promtool, "test", "rules", "scenario.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


# ---- nginx --------------------------------------------------------------------------------------------


def test_the_nginx_example_is_made_of_directives_and_blocks() -> None:
    text = re.sub(r"#.*", "", text_of("nginx", "fastnode.conf"))
    depth = 0
    for statement in re.findall(r"[^;{}]*[;{}]", text):
        end, words = statement[-1], statement[:-1].split()
        assert bool(words) == (end != "}"), statement
        depth += {"{": 1, "}": -1, ";": 0}[end]
        assert depth >= 0
    assert depth == 0
    assert re.sub(r"[^;{}]*[;{}]", "", text).strip() == ""
    assert "8880" not in text


class Gateway:
    """The nginx example with other names and ports, in front of one node and of one that is not there."""

    def __init__(self, folder: Path, node_port: int) -> None:
        self.port, nothing = free_port(), free_port()
        make = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -keyout key.pem -out cert.pem"
        subprocess.run(shlex.split(make), cwd=folder, capture_output=True, check=True)
        example = text_of("nginx", "fastnode.conf")
        for old, new in (
            ("10.0.0.11:8080", f"127.0.0.1:{node_port}"),
            ("10.0.0.12:8080", f"127.0.0.1:{nothing}"),
            ("listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;"),
            ("    listen [::]:443 ssl;\n", ""),
            ("/etc/ssl/rpc.example.pem", str(folder / "cert.pem")),
            ("/etc/ssl/private/rpc.example.key", str(folder / "key.pem")),
        ):
            assert old in example
            example = example.replace(old, new)
        paths = "".join(
            f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;\n" if os.geteuid() == 0 else ""  # or it would write its files as another one
        (folder / "nginx.conf").write_text(
            f"{user}daemon off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{paths}{example}}}\n"
        )
        self._process = subprocess.Popen(
            ["nginx", "-e", "stderr", "-c", str(folder / "nginx.conf")], stderr=subprocess.PIPE, text=True
        )
        self._trust = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        self._trust.check_hostname = False

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._trust, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, self._process.communicate()[1]
                assert time.monotonic() < end
                time.sleep(0.01)

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


def test_the_nginx_example_serves_through_the_node_that_is_there(tmp_path: Path) -> None:
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("nginx is not here")
    number = b'{"jsonrpc":"2.0","id":7,"method":"node_getBlockNumber","params":[]}'
    with local_network("--no-test-accounts") as network:
        gateway = Gateway(tmp_path, int(network.url.rsplit(":", 1)[1]))
        try:
            gateway.wait()
            # The first of them may go to the node that is not there.
            for _ in range(6):
                assert gateway.ask("POST", "/", number) == (200, b'{"jsonrpc":"2.0","id":7,"result":1}')
            status, batch = gateway.ask("POST", "/", b"[%b,%b]" % (number, number))
            assert (status, [answer["result"] for answer in json.loads(batch)]) == (200, [1, 1])
            assert gateway.ask("GET", "/readyz")[0] == 200
            assert gateway.ask("GET", "/metrics")[0] == 404
            # Both say how large a body may be, the node in JSON.
            assert gateway.ask("POST", "/", b" " * 1_000_000 + number)[0] == 200
            assert gateway.ask("POST", "/", b" " * 2_000_000)[0] == 413
        finally:
            gateway.stop()
