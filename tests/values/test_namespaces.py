"""Names of the same method for clients of two generations."""

from __future__ import annotations

from fastnode.values.namespaces import newer_name, wire_names


def test_each_method_of_the_two_namespaces_has_a_newer_name_and_others_have_one_name() -> None:
    assert newer_name("node_getBlock") == "aztec_getBlock"
    assert newer_name("nodeAdmin_getConfig") == "aztecAdmin_getConfig"
    for name in ("fastnode_getGenesis", "rpc.discover", "eth_chainId"):
        assert wire_names(name) == [name]
        assert wire_names(name, "aztec") == [name]


def test_either_namespace_may_be_the_only_one() -> None:
    assert wire_names("node_getBlock") == ["node_getBlock", "aztec_getBlock"]
    assert wire_names("node_getBlock", "node") == ["node_getBlock"]
    assert wire_names("node_getBlock", "aztec") == ["aztec_getBlock"]
