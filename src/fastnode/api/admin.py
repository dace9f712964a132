"""The admin methods that show and change the running node's configuration and keys."""

from __future__ import annotations

from typing import Any, Final

import orjson

from fastnode.config.config_keys import FIVE, FOUR, KeySet
from fastnode.config.configuration import ConfigPatch, ConfigPatchOfFive, NodeConfiguration
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature, common
from fastnode.keystore.validators import Validators

__all__ = ["methods"]

_PATCH: Final = Parameter("config", ConfigPatch())
_PATCH_OF_FIVE: Final = Parameter("config", ConfigPatchOfFive())


def _keys_of(context: Context) -> KeySet:
    """The keys that clients of the node's method set know."""
    return FIVE if context.is_five_or_later else FOUR


def methods(configuration: NodeConfiguration, validators: Validators | None = None) -> list[Method]:
    """``validators`` None: as without a keystore."""
    keys = validators or Validators(None, configuration)

    def get_config(context: Context) -> bytes:
        return orjson.dumps(configuration.describe(_keys_of(context)))

    def set_config(context: Context, patch: dict[str, Any]) -> None:
        configuration.change(patch, _keys_of(context))

    def reload_keystore(_context: Context) -> None:
        keys.reload()

    return [
        Method(
            name="nodeAdmin_getConfig",
            summary="The configuration of the running node; what is not set and what is secret is left out.",
            handler=get_config,
            **common("AztecNodeAdminConfig"),
            five=Signature("AztecNodeAdminConfigV5"),
        ),
        Method(
            name="nodeAdmin_setConfig",
            summary="Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of "
            "a wrong type, fixed while the node runs or read by no part of it, none.",
            handler=set_config,
            in_thread=True,
            waits=True,
            **common("void", _PATCH, may_be_absent=True),
            five=Signature("void", (_PATCH_OF_FIVE,), may_be_absent=True),
        ),
        Method(
            name="nodeAdmin_reloadKeystore",
            summary="Read the keystore again and take over validators, coinbases, fee recipients and publishers; all "
            "of it or, if anything is wrong, nothing.",
            handler=reload_keystore,
            in_thread=True,
            waits=True,
            **common("void", may_be_absent=True),
        ),
    ]
