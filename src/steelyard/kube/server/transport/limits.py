"""What all servers of a process have in common: the seats at work, the room for bodies, the door.

The platform makes one and hands it to every server that it starts, so that one tenant's cluster has its share and no
more. A server that is given none has one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from steelyard.kube.server.fairness.shares import Limits, Shares
from steelyard.kube.server.transport.door import Door
from steelyard.kube.server.transport.intake import Intake


@dataclass(slots=True)
class Commons:
    shares: Shares = field(default_factory=lambda: Shares(Limits()))
    intake: Intake = field(default_factory=Intake)
    door: Door = field(default_factory=Door)
