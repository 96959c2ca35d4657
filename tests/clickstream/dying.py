"""Run one verb in this process and die by SIGKILL at a moment of its publication: `dying.py MOMENT VERB [ARTIFACT]`."""

from __future__ import annotations

import os
import signal
import sys

from clickstream import verbs
from clickstream.broker import Broker
from tests.clickstream.histories import SMALL

MOMENT, VERB, SERVERS, PREFIX, TRANSACTIONS, *MORE = sys.argv[1:]


def die(moment: str) -> None:
    if moment == MOMENT:
        os.kill(os.getpid(), signal.SIGKILL)


stand = verbs.Stand(Broker(SERVERS, PREFIX, TRANSACTIONS == "True"), progress=die)
if VERB == "next-day":
    verbs.next_day(stand)
elif VERB == "backfill":
    verbs.backfill(stand, **SMALL, days=2)
else:
    verbs.import_artifact(stand, MORE[0])
