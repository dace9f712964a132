"""A whole node tells of every setting whose part is off, as the table has them, and of what is nearly a name."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.config.examples import as_toml, examples
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess

from fastnode.config.settings import Setting, Settings, rows

#: Settings that belong to a part.
TABLE = {row.name: row for row in rows(Settings) if row.needs is not None}
#: Parts that are on unless they are turned off: what turns them off, and the settings that belong to them.
TURNED_OFF: dict[str, tuple[str, ...]] = {
    "disable-admin-api-key = true": ("admin-api-key-hash",),
    'proof-verifier-command = "true"': ("bb-binary-path", "bb-num-ivc-verifiers", "bb-ivc-concurrency"),
    'sync-mode = "full"': ("snapshots-urls",),
    'simulate-public-calls = "local"': ("public-simulator-url",),
}
OF_THE_SECOND = [name for names in TURNED_OFF.values() for name in names]


#: URLs of servers, which are checked whether their part runs or not.
HTTP_URLS = {"public-simulator-url", "web3-signer-url", "l1-consensus-host-urls", "blob-archive-api-url"}
HTTP_URLS |= {"ethereum-debug-hosts"}


def value_of(row: Setting, folder: Path) -> str:
    """One that the start takes although nothing comes of it."""
    if row.name in ("genesis", "load-state"):
        (folder / row.name).touch()
        return str(folder / row.name)
    if row.kind.is_path:
        return str(folder / row.name)
    if row.name == "validator-ha-database-url":
        return "postgresql://nowhere"
    if row.name == "admin-api-key-hash":
        return ADMIN_KEY_HASH
    if row.name == "sync-mode":
        return "force-snapshot"
    if row.name in HTTP_URLS:
        return "http://127.0.0.1:9"
    if row.name == "prefund":
        return "0x" + "0a" * 32
    if row.name == "slash-max-penalty-percentage":
        return "3"
    return "file:///nowhere" if row.name.endswith(("-urls", "-url", "-locations")) else examples(row)[0]


def misspelt(names: list[str], dice: random.Random) -> dict[str, str]:
    """Names of the environment without one of their letters, by what they are without the mistake."""
    found = {}
    for name in dice.sample([name for name in names if len(name) > 12], 12):
        at = dice.randrange(2, len(name) - 6)
        found[name[:at] + name[at + 1 :]] = name
    return found


MISSPELT = misspelt(sorted(name for row in rows(Settings) for name in row.other_environment), random.Random(9))


def said(node: NodeProcess) -> dict[str, str]:
    """The need of each setting that a warning names."""
    found = {}
    for entry in node.entries():
        if entry["message"] == "settings without effect here":
            assert entry["level"] == "warning"
            found |= dict.fromkeys(entry["names"].split(), entry["need"])
    return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, short_chain: Path) -> Iterator[list[NodeProcess]]:
    """Two nodes that serve a chain and do nothing else, with every setting that belongs to a part."""
    folder, started = tmp_path_factory.mktemp("off"), []
    first = [as_toml(row, value_of(row, folder)) for name, row in TABLE.items() if name not in OF_THE_SECOND]
    second = [f"{line}\n" for line in TURNED_OFF]
    second += [as_toml(TABLE[name], value_of(TABLE[name], folder)) for name in OF_THE_SECOND]
    try:
        for number, lines in enumerate((first, second)):
            file = folder / f"{number}.toml"
            file.write_text("".join(lines))
            arguments = ["--config", str(file), "--chain-file", str(short_chain)]
            names = dict.fromkeys(MISSPELT, "1") if number == 0 else {}
            started.append(NodeProcess(arguments, folder / f"{number}.log", names))
        yield [node.wait_until_serving() for node in started]
    finally:
        for node in started:
            node.process.terminate()
        for node in started:
            node.process.wait(PATIENCE_S)


def test_every_setting_of_a_part_that_is_off_is_named_with_what_it_needs(nodes: list[NodeProcess]) -> None:
    first, second = map(said, nodes)
    assert first == {name: row.needs.text for name, row in TABLE.items() if row.needs and name not in OF_THE_SECOND}
    assert {name: second[name] for name in OF_THE_SECOND} == {name: TABLE[name].needs.text for name in OF_THE_SECOND}  # type: ignore[union-attr]


def test_names_that_lack_a_letter_are_spoken_of(nodes: list[NodeProcess]) -> None:
    lines = {entry["message"] for entry in nodes[0].entries()}
    assert {
        f"{wrong} is set, and no setting is called so (did you mean {name}?)" for wrong, name in MISSPELT.items()
    } <= lines


def closed(schema: dict[str, Any], document: dict[str, Any]) -> list[list[str]]:
    """Members of the objects that have no others, as far as a value with this schema may be one."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    inner = [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ())]
    own = [list(schema["properties"])] if schema.get("additionalProperties") is False else []
    return own + [members for one in inner for members in closed(one, document)]


def test_a_misspelt_member_of_an_object_that_has_no_others_is_refused(nodes: list[NodeProcess]) -> None:
    dice, tried = random.Random(9), set()
    for ask, discover in ((nodes[1].call, "rpc.discover"), (nodes[1].call_admin, "rpc.discover")):
        document = ask(discover)["result"]
        for method in (method for method in document["methods"] if "examples" in method):
            for place, parameter in enumerate(method["params"]):
                for members in closed(parameter["schema"], document):
                    member = dice.choice([name for name in members if len(name) > 2])
                    wrong = member[:1] + member[2:]
                    values = [item["value"] for item in method["examples"][0]["params"]]
                    error = ask(method["name"], *values[:place], {wrong: 1}, *values[place + 1 :])["error"]
                    assert error["code"] == -32602
                    says = error["message"]
                    assert f'"{wrong}"' in says or all(name in says for name in members), (method["name"], says)
                    tried.add(method["name"])
    assert {"node_getBlock", "node_getPublicDataWitness", "nodeAdmin_setConfig"} <= tried
