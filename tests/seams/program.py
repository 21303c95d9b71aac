"""`steelyard` with the second things: what a team would write that has kinds of its own."""

from __future__ import annotations

from steelyard import app
from steelyard.compose import offering
from steelyard.compose.infrastructures.simulated import SIMULATED
from tests.seams import paper
from tests.seams.note import NOTE

OFFERING = offering.offering((SIMULATED, paper.PAPER), NOTE)
PROVIDERS = (*app.PROVIDERS, paper.PROVIDER)
