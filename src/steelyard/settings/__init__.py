"""The platform file: what one installation is called, what its environments are, and what it works together with.

`read()` finds and loads it; `Platform` is the frozen result that composition, controllers and the command line share.
"""

from steelyard.settings.integrations import Integration, Integrations
from steelyard.settings.model import (
    ClusterNetwork,
    Environment,
    Platform,
    Previews,
    Simulated,
)
from steelyard.settings.problems import SettingsError
from steelyard.settings.reading import find, load, parse, read
from steelyard.settings.remembering import Chosen, Remembered, choose, recall, remember

__all__ = [
    "Chosen",
    "ClusterNetwork",
    "Environment",
    "Integration",
    "Integrations",
    "Platform",
    "Previews",
    "Remembered",
    "SettingsError",
    "Simulated",
    "choose",
    "find",
    "load",
    "parse",
    "read",
    "recall",
    "remember",
]
