"""Puts compiled functions into the wheel if OPENSET_PRECOMPILED names their folder."""

import os
import platform
import sys

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SYSTEMS = {"linux": "manylinux_2_17", "darwin": "macosx_11_0"}


class PrecompiledHook(BuildHookInterface):
    """One wheel per Python and system; without the folder, the one wheel for all."""

    def initialize(self, version: str, build_data: dict) -> None:
        folder = os.environ.get("OPENSET_PRECOMPILED")
        if not folder or version == "editable":
            return
        build_data["force_include"][folder] = "openset/_precompiled"
        build_data["pure_python"] = False
        # A newer Python may install this wheel, too, and compiles; it prefers one of its own.
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        build_data["tag"] = f"{python}-none-{_SYSTEMS[sys.platform]}_{platform.machine()}"
